package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// twoHosts are the parameters of a pair.
func twoHosts(t *testing.T) state.EtcdParameters {
	t.Helper()
	p, err := state.DecodeEtcdParameters([]byte(pairOfAB))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAKeeperIsNotPutTogetherFromPartsThatFail: the daemon says why.
func TestAKeeperIsNotPutTogetherFromPartsThatFail(t *testing.T) {
	failed := errors.New("it failed")
	for rule, c := range map[string]struct {
		harm func(*daemon)
		want string
	}{
		"all is well":            {func(*daemon) {}, ""},
		"another host":           {func(d *daemon) { d.Host = "gamma" }, "does not name this host, gamma"},
		"no client of etcd":      {func(d *daemon) { d.open = func(etcd.Config) (etcdClient, error) { return nil, failed } }, "it failed"},
		"the kernel is silent":   {func(d *daemon) { d.boot = func() (string, time.Duration, error) { return "", 0, failed } }, "it failed"},
		"no memory of this boot": {func(d *daemon) { d.files.Root = filepath.Join(d.files.Root, "file") }, "what was seen in this boot"},
	} {
		root := t.TempDir()
		keep(t, filepath.Join(root, "file"), "")
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, (&play{root: root}).effects(), records.Files{Root: root}, "")
		d.open = func(etcd.Config) (etcdClient, error) { return etcdOf{}, nil }
		c.harm(d)
		k, err := d.assemble(twoHosts(t))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (k != nil) != (err == nil) {
			t.Errorf("%s: %v", rule, err)
		}
		if (d.race.Load() != nil) != (err == nil) {
			t.Errorf("%s: the fence agent is answered though nothing is kept", rule)
		}
	}
}

type closing struct {
	etcdClient
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

// TestAKeeperThatIsNotMadeLeavesNoConnection: the daemon tries every two seconds.
func TestAKeeperThatIsNotMadeLeavesNoConnection(t *testing.T) {
	for rule, c := range map[string]struct {
		works int // how many clients can be opened
		made  bool
	}{"no client of the peer's etcd": {1, false}, "all is well": {2, true}} {
		root := t.TempDir()
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, (&play{root: root}).effects(), records.Files{Root: root}, "")
		opened, closed := 0, 0
		d.open = func(etcd.Config) (etcdClient, error) {
			if opened == c.works {
				return nil, errors.New("it failed")
			}
			opened++
			return closing{etcdOf{}, &closed}, nil
		}
		k, err := d.assemble(twoHosts(t))
		if (err == nil) != c.made {
			t.Fatalf("%s: %v", rule, err)
		}
		if k != nil && (closed > 0 || k.Close() != nil) || closed != opened {
			t.Errorf("%s: %d opened, %d closed", rule, opened, closed)
		}
	}
}

// TestWhenThePeerWasProvenToBeOff: by a fence of this boot that read exactly Off.
func TestWhenThePeerWasProvenToBeOff(t *testing.T) {
	proof := state.EtcdFenced{Target: "beta", State: state.PowerOff, Boot: "boot-2", At: time.Minute}
	for rule, c := range map[string]struct {
		change func(*state.EtcdFenced)
		boot   error
		want   time.Duration
	}{
		"in this boot":             {func(*state.EtcdFenced) {}, nil, time.Minute},
		"in another boot":          {func(p *state.EtcdFenced) { p.Boot = "boot-1" }, nil, 0},
		"of another host":          {func(p *state.EtcdFenced) { p.Target = "gamma" }, nil, 0},
		"in another power state":   {func(p *state.EtcdFenced) { p.State = "PoweringOff" }, nil, 0},
		"this boot is not known":   {func(*state.EtcdFenced) {}, errors.New("no /proc"), 0},
		"the proof cannot be read": {nil, nil, 0},
	} {
		d := newDaemon(Options{Host: "alpha"}, effects{boot: func() (string, time.Duration, error) { return "boot-2", time.Hour, c.boot }}, records.Files{Root: t.TempDir()}, "")
		if c.change == nil {
			keep(t, filepath.Join(d.files.Path(state.FencedDir), "beta.json"), "{")
		} else {
			p := proof
			c.change(&p)
			if err := os.MkdirAll(d.files.Path(state.FencedDir), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := d.files.WriteFenced(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.provenOff("beta"); got != c.want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

func TestTheLastTakeOverIsToldWhereThereWasOne(t *testing.T) {
	last := &etcd.StandInResult{Outcome: "led"}
	for rule, c := range map[string]struct {
		s    etcd.StandIn
		err  error
		want string
	}{
		"there was one":     {etcd.StandIn{Member: 7, Last: last}, nil, "led"},
		"there was none":    {etcd.StandIn{Member: 7}, nil, ""},
		"it cannot be read": {etcd.StandIn{Last: last}, errors.New("torn"), ""},
	} {
		e := effects{standIn: func() (etcd.StandIn, error) { return c.s, c.err }}
		if outcome, text := e.lastStandIn(); string(outcome) != c.want || text != c.want {
			t.Errorf("%s: %q, %q", rule, outcome, text)
		}
		if id, err := e.standingFor(); id != c.s.Member || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v", rule, id, err)
		}
	}
}

// TestThePeersStatementIsReadAsOftenAsItIsNeeded: each read starts a process. A mistake,
// another membership and a peer without a statement have it read at once.
func TestThePeersStatementIsReadAsOftenAsItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := func(serial uint64) string {
			text, _ := json.Marshal(state.EtcdStatement{Boot: "p1", Serial: serial})
			return string(text)
		}
		var values map[string]string
		var failed error
		stops, asked := false, 0
		k := newKeeper(t, &world{}, state.EtcdStarted)
		st := &statements{keeper: k, race: newRace(false, func() time.Duration { return time.Hour }, logOf(t)), effects: effects{
			attributes: func(_ context.Context, name string) (map[string]string, error) {
				if asked++; name != attribute {
					t.Errorf("asked for %q", name)
				}
				return values, failed
			},
			shutsDown: func(context.Context, string) (bool, error) { return stops, failed },
		}}
		k.report.Verdict.Action, k.report.Snapshot.Uptime = state.EtcdIdle, time.Hour
		broken := errors.New("no answer")
		for _, c := range []struct {
			rule   string
			change func()
			asks   int
			found  bool
			serial uint64
			err    string
		}{
			{"it has said nothing", func() { values = map[string]string{"alpha": "x"} }, 1, false, 0, ""},
			{"nor now", func() {}, 1, false, 0, ""},
			{"it speaks", func() { values = map[string]string{"beta": said(1)} }, 1, true, 1, ""},
			{"it says more a moment later", func() { values = map[string]string{"beta": said(2)}; time.Sleep(listen - 1) }, 0, true, 1, ""},
			{"and that is read in time", func() { time.Sleep(time.Nanosecond) }, 1, true, 2, ""},
			{"the hosts met again", func() { values = map[string]string{"beta": said(3)}; meet(k) }, 1, true, 3, ""},
			{"Pacemaker does not answer", func() { failed = broken; time.Sleep(listen) }, 1, false, 0, "no answer"},
			{"it answers again", func() { failed = nil }, 1, true, 3, ""},
			{"the statement is torn", func() { values = map[string]string{"beta": "{"}; time.Sleep(listen) }, 1, false, 0, "statement of beta"},
			{"it is gone", func() { values = nil }, 1, false, 0, ""},
			{"it is back at once", func() { values = map[string]string{"beta": said(4)} }, 1, true, 4, ""},
		} {
			c.change()
			asked = 0
			got, found, err := st.read(t.Context(), "beta")
			if asked != c.asks || found != c.found || got.Serial != c.serial || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: asked %d times, found %t, %d, %v", c.rule, asked, found, got.Serial, err)
			}
		}
	})
}

// TestWhoseStopIsAskedFor: that of the peer of a host that leaves, unless the peer says so
// itself.
func TestWhoseStopIsAskedFor(t *testing.T) {
	for rule, c := range map[string]struct {
		wish    state.EtcdWish
		says    bool
		stops   bool
		err     error
		asked   int
		leaving bool
	}{
		"this host stays":             {state.EtcdStarted, false, true, nil, 0, false},
		"nobody asked for etcd":       {state.EtcdNotAsked, false, true, nil, 0, false},
		"both leave":                  {state.EtcdStopped, false, true, nil, 1, true},
		"this host alone leaves":      {state.EtcdStopped, false, false, nil, 1, false},
		"the peer says so":            {state.EtcdStopped, true, false, nil, 0, true},
		"Pacemaker gives no answer":   {state.EtcdStopped, false, false, errors.New("no answer"), 1, false},
		"the peer said so, and stays": {state.EtcdStarted, true, false, nil, 0, true},
	} {
		asked := 0
		st := &statements{keeper: newKeeper(t, &world{}, c.wish), race: newRace(false, time.Hour.Abs, logOf(t)), effects: effects{
			shutsDown: func(_ context.Context, node string) (bool, error) {
				if asked++; node != "beta" {
					t.Errorf("%s: asked for %s", rule, node)
				}
				return c.stops, c.err
			},
			attributes: func(context.Context, string) (map[string]string, error) {
				text, err := json.Marshal(state.EtcdStatement{Leaving: c.says})
				return map[string]string{"beta": string(text)}, err
			},
		}}
		got, found, err := st.read(t.Context(), "beta")
		if asked != c.asked || got.Leaving != c.leaving || !errors.Is(err, c.err) || found != (err == nil) {
			t.Errorf("%s: asked %d times, leaving %t, found %t, %v", rule, asked, got.Leaving, found, err)
		}
	}
}

// TestHowOldThePeersStatementMayBe: seconds while all is well, and hardly anything while
// something is under way.
func TestHowOldThePeersStatementMayBe(t *testing.T) {
	for rule, c := range map[string]struct {
		action state.EtcdAction
		moved  time.Duration
		want   time.Duration
	}{
		"all is well":                {state.EtcdIdle, lively + 1, listen},
		"something changed just now": {state.EtcdIdle, lively, busy / 2},
		"something is waited for":    {state.EtcdWait, time.Hour, busy / 2},
	} {
		k := &Keeper{lastMove: 2*time.Hour - c.moved}
		k.report.Verdict.Action, k.report.Snapshot.Uptime = c.action, 2*time.Hour
		if got := k.listenEvery(); got != c.want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}
