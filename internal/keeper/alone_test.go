package keeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAStopWithoutTheKeeper: Pacemaker's wish is noted before anything else, what runs
// is ended, and only what surely does not run any more has stopped.
func TestAStopWithoutTheKeeper(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	nothing := podmanetcd.Seen{Held: no, Lives: no, StandsIn: no}
	runs := podmanetcd.Seen{Held: yes, Lives: yes, StandsIn: no}
	for rule, c := range map[string]struct {
		before, after podmanetcd.Seen
		note, end     error
		ends          bool
		reason        string // of a failure
	}{
		"nothing runs":                            {before: nothing},
		"what runs is ended":                      {before: runs, after: nothing, ends: true},
		"kubelet's is left alone":                 {before: podmanetcd.Seen{Held: yes, Lives: yes, StandsIn: no, Foreign: true}},
		"what is not known to be gone is ended":   {before: podmanetcd.Seen{Held: unknown, Lives: no, StandsIn: no}, after: nothing, ends: true},
		"a stand-in runs too":                     {before: podmanetcd.Seen{Held: no, Lives: no, StandsIn: yes}, after: nothing, ends: true},
		"it cannot be noted, so nothing is ended": {before: runs, note: errors.New("no space"), reason: "no space"},
		"the end fails":                           {before: runs, end: errors.New("no answer"), ends: true, reason: "etcd did not stop: no answer"},
		"the data are still held":                 {before: runs, after: podmanetcd.Seen{Held: yes, Lives: no, StandsIn: no}, ends: true, reason: "etcd was stopped, but a process still holds its data or a stand-in still votes for it"},
		"nobody knows whether they are":           {before: runs, after: podmanetcd.Seen{Held: unknown, Lives: no, StandsIn: no}, ends: true, reason: "etcd was stopped, but a process still holds its data or a stand-in still votes for it"},
	} {
		seen, noted, ended := c.before, false, false
		a := WithoutKeeper{
			See:  func() podmanetcd.Seen { return seen },
			End:  func(context.Context) error { ended, seen = true, c.after; return c.end },
			Note: func() error { noted = true; return c.note },
		}
		want := podmanetcd.Answer{Reason: c.reason}
		if c.reason != "" {
			want.Code = podmanetcd.Generic
		}
		if got := a.Stop(t.Context()); got != want || !noted || ended != c.ends {
			t.Errorf("%s: %+v, noted %t, ended %t", rule, got, noted, ended)
		}
	}
}

// TestWhatIsReportedWhileNothingKeepsEtcd: an administrator is asked for, and etcd is
// down only where it surely is.
func TestWhatIsReportedWhileNothingKeepsEtcd(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := newDaemon(Options{Host: "alpha", Now: func() time.Time { return now }, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
	if r := d.report(); r.Verdict.Rule != "not-set-up" || r.Verdict.Action != state.EtcdIdle || r.Problem != "" || !r.At.Equal(now) || r.Snapshot.Local.Running.Known {
		t.Errorf("Pacemaker never asked: %+v", r)
	}
	d.cannot.Store(&trouble{"no certificate", now.Add(-time.Minute)})
	for what, c := range map[string]struct {
		seen    podmanetcd.Seen
		running state.Fact[bool]
		down    time.Duration
	}{
		"it runs":                             {podmanetcd.Seen{Held: yes, Lives: yes}, yes, 0},
		"it is down":                          {podmanetcd.Seen{Held: no, Lives: no}, no, time.Minute},
		"its process may take its data":       {podmanetcd.Seen{Held: no, Lives: yes}, unknown, 0},
		"nobody knows whether it holds them":  {podmanetcd.Seen{Held: unknown, Lives: no}, unknown, 0},
		"nobody knows whether a process runs": {podmanetcd.Seen{Held: no, Lives: unknown}, no, time.Minute},
	} {
		d.alone.See = func() podmanetcd.Seen { return c.seen }
		r := d.report()
		if r.Snapshot.Local.Running != c.running || r.Down != c.down || r.Since != time.Minute || r.Problem != "no certificate" || !r.Snapshot.Now.Equal(now) {
			t.Errorf("%s: running %+v, down %s, since %s, %q", what, r.Snapshot.Local.Running, r.Down, r.Since, r.Problem)
		}
		if v := r.Verdict; v.Action != state.EtcdAskHuman || v.Rule != "unknown.keeper" || v.Next != "journalctl --unit podman-etcd" || v.Reason == "" {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

// TestWhatMovesThePulse: a higher commit index is a commit; a lower one is that of
// other data, and none says nothing.
func TestWhatMovesThePulse(t *testing.T) {
	now := time.Hour
	p := &pulse{uptime: func() time.Duration { return now }, excused: func() bool { return false }}
	p.state(true)
	for _, c := range []struct {
		index uint64
		moves bool
	}{{5, true}, {5, false}, {9, true}, {0, false}, {9, false}, {3, false}, {3, false}, {4, true}, {10, true}} {
		now += time.Minute
		before := p.indexAt
		p.moved(c.index)
		if moved := p.indexAt != before; moved != c.moves || moved && (p.indexAt != now || p.last != now) {
			t.Errorf("at index %d: moved %t, at %s", c.index, moved, p.indexAt)
		}
	}
}

// TestWhenThePeersBMCIsAsked: while the peer is absent and nothing proves that it is
// off, on a host that waits for that.
func TestWhenThePeersBMCIsAsked(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
	for what, c := range map[string]struct {
		contact, inert state.Fact[bool]
		since          time.Duration
		action         state.EtcdAction
		want           bool
	}{
		"the peer is there":                        {state.Known(true), state.Known(true), time.Minute, state.EtcdWait, false},
		"nobody knows whether it is":               {state.Fact[bool]{}, state.Known(true), time.Minute, state.EtcdWait, false},
		"it was never seen since boot":             {state.Known(false), state.Known(true), 0, state.EtcdIdle, true},
		"it was lost a moment ago":                 {state.Known(false), state.Known(false), 10 * time.Second, state.EtcdWait, false},
		"it was lost a while ago":                  {state.Known(false), state.Known(false), 10*time.Second + 1, state.EtcdWait, true},
		"it was lost, and this host goes on alone": {state.Known(false), state.Known(false), time.Minute, state.EtcdIdle, false},
	} {
		k := newKeeper(t, w, state.EtcdStarted)
		k.report.Snapshot.Pacemaker.Contact, k.report.Snapshot.Pacemaker.Inert = c.contact, c.inert
		k.report.Since, k.report.Verdict.Action = c.since, c.action
		if got := k.wantsPower(); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
