package keeper

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAKeeperBeginsWithTheWishThatWasStored(t *testing.T) {
	k := newKeeper(t, &world{}, state.EtcdStarted)
	if r, _ := k.Report(); r.Wish != state.EtcdStarted || k.Wish().Wish != state.EtcdStarted {
		t.Errorf("%+v", r)
	}
}

func TestAKeeperRunsUntilItsContextEndsAndTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{record: pairRecord(), leader: 0xb, peer: peerPair()}
		k := newKeeper(t, w, state.EtcdStopped)
		meet(k)
		why := errors.New("the host shuts down")
		ctx, end := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		_, changed := k.Report()
		time.Sleep(2 * lively)
		select {
		case <-changed:
		default:
			t.Error("no round follows the first")
		}
		end(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
}

func TestWhetherThePeerIsThereIsUnknownUntilCorosyncSaysSo(t *testing.T) {
	now := time.Hour
	r := newRace(false, func() time.Duration { return now }, logOf(t))
	there := func() state.Fact[bool] { return r.decide(state.RaceRequest{Readable: true}, state.EtcdReport{}).There }
	for _, c := range []struct {
		name string
		do   func()
		want state.Fact[bool]
	}{
		{"at first", func() {}, state.Fact[bool]{}},
		{"a membership that is unknown", func() { r.setMembership(state.Fact[state.Membership]{}, false) }, state.Fact[bool]{}},
		{"a membership without the peer", func() { r.setMembership(anyRing, false) }, state.Known(false)},
		{"it is unknown again", func() { r.setMembership(state.Fact[state.Membership]{}, false) }, state.Known(false)},
		{"the peer, just now", func() { r.setMembership(anyRing, true) }, state.Fact[bool]{}},
	} {
		c.do()
		if got := there(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestThePeerIsAskedForItsTurnOnlyWhileItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []bool
		r := lostRace(t)
		r.ask = func(_ context.Context, back bool) (state.RaceAnswer, error) {
			asked = append(asked, back)
			return state.RaceAnswer{}, nil
		}
		ctx, end := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.listen(ctx) }()
		synctest.Wait()
		if len(asked) == 0 || slices.Contains(asked, true) {
			t.Errorf("lost: %v", asked)
		}
		asked = nil
		r.side.Kept = r.uptime() + fencerace.Keep // it gives way, and the peer is back
		r.setMembership(anyRing, true)
		synctest.Wait()
		if len(asked) == 0 || slices.Contains(asked, false) || !r.gives() {
			t.Errorf("back: %v", asked)
		}
		why := errors.New("the host shuts down")
		end(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
}

func TestAReachThatIsNotKnownIsLoggedAsSuch(t *testing.T) {
	var log bytes.Buffer
	r := newRace(false, func() time.Duration { return time.Hour }, slog.New(slog.NewTextHandler(&log, nil)))
	for _, s := range []state.ReachState{state.ReachYes, state.ReachUnknown, state.ReachNo} {
		r.setReach(state.Reach{State: s})
	}
	for _, want := range []string{"state=" + string(state.ReachYes), "state=unknown", "state=" + string(state.ReachNo)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
	if r.reach().State != state.ReachNo {
		t.Errorf("%+v", r.reach())
	}
}

func TestTheEndOfGivingWayIsLoggedWhereItEnds(t *testing.T) {
	var log bytes.Buffer
	now := time.Hour
	r := newRace(false, func() time.Duration { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	r.setMembership(anyRing, true)
	free := false
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) { return state.RaceAnswer{Free: free}, nil }
	r.side.Kept = now + time.Minute
	r.askBack(t.Context())
	if r.side.Kept == 0 || strings.Contains(log.String(), "stops yielding") {
		t.Errorf("the peer holds a promise: until %s\n%s", r.side.Kept, log.String())
	}
	free = true
	r.askBack(t.Context())
	if r.side.Kept != 0 || strings.Count(log.String(), "stops yielding") != 1 {
		t.Errorf("until %s\n%s", r.side.Kept, log.String())
	}
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
		return state.RaceAnswer{Free: true}, errors.New("no answer")
	}
	r.side.Kept = now + time.Minute
	if r.askBack(t.Context()); r.side.Kept == 0 {
		t.Error("no answer ended it")
	}
}
