package keeper

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/act"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAStopOfALoopThatHangsCountsWhatIsSeen: a failure has the host fenced. Something that may
// yet start keeps the stop from success, and so does what nobody can see.
func TestAStopOfALoopThatHangsCountsWhatIsSeen(t *testing.T) {
	no := state.Known(false)
	nothing := podmanetcd.Seen{Held: no, Lives: no, StandsIn: no}
	for rule, c := range map[string]struct {
		step string
		seen podmanetcd.Seen
		ok   bool
	}{
		"a copy takes too long":           {stepOf(state.EtcdEmpty), nothing, true},
		"a look takes too long":           {"reading the state of this host", nothing, true},
		"nobody knows whether etcd runs":  {stepOf(state.EtcdEmpty), podmanetcd.Seen{Lives: no, StandsIn: no}, false},
		"etcd lives":                      {stepOf(state.EtcdStop), podmanetcd.Seen{Held: no, Lives: state.Known(true), StandsIn: no}, false},
		"a stand-in votes":                {stepOf(state.EtcdStop), podmanetcd.Seen{Held: no, Lives: no, StandsIn: state.Known(true)}, false},
		"etcd may start at any moment":    {stepOf(state.EtcdStart), nothing, false},
		"a stand-in may":                  {stepOf(state.EtcdStartStandIn), nothing, false},
		"etcd may come back in its place": {restarting, nothing, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, &world{}, state.EtcdStarted)
			d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
			d.kept.Store(k)
			d.alone.See = func() podmanetcd.Seen { return c.seen }
			ctx, end := context.WithCancel(t.Context())
			hangs := make(chan error)
			go func() { hangs <- k.within(ctx, c.step, time.Hour, hang) }()
			synctest.Wait()
			began := time.Now()
			a := answerIn(t, asked(t, d, http.MethodPost, "/stop", ""))
			if (a.Code == podmanetcd.Success) != c.ok || time.Since(began) != StopLimit {
				t.Errorf("%s: %+v after %s", rule, a, time.Since(began))
			}
			end()
			if err := <-hangs; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

func hang(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

// rejoining returns a keeper that has to empty its data directory before it joins, which the
// peer's cluster does not list.
func rejoining(t *testing.T, copyOf act.Copy, w *world) *Keeper {
	t.Helper()
	w.record, w.peer = pairRecord(), peerPair()
	w.peer.Record.State, w.peer.Leads = state.EtcdSole, true
	w.peer.Members = state.Known([]state.EtcdMember{{ID: 0xb, Name: "beta"}})
	k := newKeeper(t, w, state.EtcdStarted)
	k.Doer.Copy = copyOf
	meet(k)
	return k
}

// slowCopy is a data directory whose copy takes until its context ends.
type slowCopy struct{ copyOf }

func (c slowCopy) Backup(ctx context.Context) error {
	c.did = append(c.did, "backup")
	return hang(ctx)
}

// TestAStopDoesNotWaitForACopy, and leaves the data as they are.
func TestAStopDoesNotWaitForACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		k := rejoining(t, slowCopy{copyOf{w}}, w)
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
		d.kept.Store(k)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = k.Run(ctx); close(ended) }()
		for range 30 {
			time.Sleep(time.Second)
			if synctest.Wait(); k.stepNow() == stepOf(state.EtcdEmpty) {
				break
			}
		}
		began := time.Now()
		a := answerIn(t, asked(t, d, http.MethodPost, "/stop", ""))
		if took := time.Since(began); a.Code != podmanetcd.Success || took > 2*time.Second {
			t.Errorf("%+v after %s", a, took)
		}
		time.Sleep(time.Minute)
		end()
		<-ended
		if !slices.Contains(w.did, "backup") || slices.Contains(w.did, "empty") {
			t.Errorf("did %q", w.did)
		}
	})
}

func (k *Keeper) stepNow() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stint.what
}

// TestACopyThatTakesForeverKeepsNobodyFromJoining, and the monitor does not fail meanwhile.
func TestACopyThatTakesForeverKeepsNobodyFromJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		k := rejoining(t, slowCopy{copyOf{w}}, w)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = k.Run(ctx); close(ended) }()
		last := time.Now()
		for _, changed := k.Report(); time.Since(last) <= podmanetcd.Overdue; {
			select {
			case <-changed:
				_, changed = k.Report()
				last = time.Now()
			case <-time.After(podmanetcd.Overdue + time.Second):
			}
			if synctest.Wait(); slices.Contains(w.did, "empty") {
				break
			}
		}
		end()
		<-ended
		if !slices.Contains(w.did, "empty") {
			t.Errorf("no round ended for %s, did %q", podmanetcd.Overdue, w.did)
		}
	})
}

// TestNoPartOfARoundOutlastsPacemakersPatience: a keeper that is called late has etcd that is
// down restarted, and a stop that gives up has the host fenced. A part may last slack beyond its
// limit, and the data may be examined before it.
func TestNoPartOfARoundOutlastsPacemakersPatience(t *testing.T) {
	for _, a := range []state.EtcdAction{
		state.EtcdIdle, state.EtcdWait, state.EtcdAskHuman, state.EtcdAskFence, state.EtcdGrantQuorum, state.EtcdWriteRecord, state.EtcdStart,
		state.EtcdStop, state.EtcdStartStandIn, state.EtcdStopStandIn, state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote,
		state.EtcdMark, state.EtcdMoveLeader, state.EtcdEmpty,
	} {
		if limit := act.Limit(a) + slack; inspectTime+limit > podmanetcd.Overdue || limit >= StopLimit {
			t.Errorf("%s may take %s, a monitor waits %s and a stop %s", a, limit, podmanetcd.Overdue, StopLimit)
		}
	}
	if limit := etcdmember.LeaveLimit + act.Limit(state.EtcdStop); limit > StopLimit {
		t.Errorf("a leave and the end of an etcd that hangs may take %s, and a stop %s", limit, StopLimit)
	}
	if limit := restartTime + slack; inspectTime+limit > podmanetcd.Overdue || limit >= StopLimit {
		t.Errorf("a restart in place may take %s", limit)
	}
}

// TestAStepIsNotBegunUnderAnOlderWish: Pacemaker asked for a stop between the look and the step.
func TestAStepIsNotBegunUnderAnOlderWish(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	before := k.Wish()
	if err := k.Ask(state.EtcdStopped); err != nil {
		t.Fatal(err)
	}
	if err := k.step(t.Context(), before, state.EtcdSnapshot{}, state.EtcdVerdict{Action: state.EtcdStart}); err != nil || len(w.did) > 0 {
		t.Errorf("did %q, %v", w.did, err)
	}
}
