package mayhold

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// run runs a source in a bubble and returns what it reports after a while.
func run(t *testing.T, s *Source, d time.Duration) state.Fact[bool] {
	t.Helper()
	var view state.NetworkView
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	s.Logf = t.Logf
	if err := s.Run(ctx, func(change func(*state.NetworkView)) { change(&view) }); err == nil {
		t.Error("it returned before its context")
	}
	return view.MayHold
}

func inert(v bool) func(context.Context, string) (state.EtcdReport, error) {
	return func(context.Context, string) (state.EtcdReport, error) {
		r := state.EtcdReport{Snapshot: state.EtcdSnapshot{Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair})}}
		r.Snapshot.Pacemaker.Inert = state.Known(v)
		return r, nil
	}
}

func silent(context.Context, string) (state.EtcdReport, error) {
	return state.EtcdReport{}, errors.New("nobody")
}

func TestHardCase40_AHostHoldsNothingUntilItHasQuorumInItsBoot(t *testing.T) {
	dir := t.TempDir()
	s := &Source{Fencing: true, Path: filepath.Join(dir, "run", "may-hold"), Recorded: func() bool { return true }}
	for _, step := range []struct {
		name string
		ask  func(context.Context, string) (state.EtcdReport, error)
		want bool
	}{
		{"after a boot the keeper is silent", silent, false},
		{"it is inert", inert(true), false},
		{"it has quorum", inert(false), true},
		{"the agent is started anew while the keeper is silent", silent, true},
		{"it is inert again", inert(true), false},
		{"the agent is started anew", silent, false},
	} {
		s.Ask = step.ask
		synctest.Test(t, func(t *testing.T) {
			if got := run(t, s, 2500*time.Millisecond); !state.Is(got, step.want) {
				t.Errorf("%s: %+v", step.name, got)
			}
		})
	}
}

// TestAHostThatWasSetUpInItsBootHoldsItsAddressesWhenTheAgentIsStartedAnew: the pair is
// set up while the agent runs, and the host does not boot after that.
func TestAHostThatWasSetUpInItsBootHoldsItsAddressesWhenTheAgentIsStartedAnew(t *testing.T) {
	recorded := false
	s := &Source{Fencing: true, Path: filepath.Join(t.TempDir(), "run", "may-hold"), Recorded: func() bool { return recorded }}
	for _, step := range []struct {
		name     string
		recorded bool
		ask      func(context.Context, string) (state.EtcdReport, error)
	}{
		{"there is no pair yet", false, silent},
		{"the pair is set up", true, inert(false)},
		{"the agent is started anew, and the keeper is silent", true, silent},
	} {
		recorded, s.Ask = step.recorded, step.ask
		synctest.Test(t, func(t *testing.T) {
			var told []state.Fact[bool]
			ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer stop()
			s.Logf = t.Logf
			_ = s.Run(ctx, func(change func(*state.NetworkView)) {
				var v state.NetworkView
				change(&v)
				told = append(told, v.MayHold)
			})
			for _, v := range told {
				if !state.Is(v, true) {
					t.Errorf("%s: %+v", step.name, told)
				}
			}
		})
	}
}

func TestWithoutFencingNobodyIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Source{Path: filepath.Join(t.TempDir(), "may-hold"), Recorded: func() bool { return false }, Ask: func(context.Context, string) (state.EtcdReport, error) {
			t.Error("asked")
			return state.EtcdReport{}, nil
		}}
		if got := run(t, s, 5*time.Second); !state.Is(got, true) {
			t.Errorf("%+v", got)
		}
	})
}

// keeper waits with its answer until there is a new one, or for ten seconds.
type keeper struct {
	asked   int
	changed chan struct{}
	inert   bool
}

func (k *keeper) ask(ctx context.Context, mark string) (state.EtcdReport, error) {
	k.asked++
	answer := inert(k.inert)
	if r, err := answer(ctx, mark); decide.Mark(r) != mark {
		return r, err
	}
	select {
	case <-k.changed:
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return state.EtcdReport{}, context.Cause(ctx)
	}
	return inert(k.inert)(ctx, mark)
}

func TestAKeeperThatWaitsIsAskedSeldomAndHeardAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{changed: make(chan struct{})}
		s := &Source{Fencing: true, Path: filepath.Join(t.TempDir(), "may-hold"), Recorded: func() bool { return false }, Ask: k.ask, Logf: t.Logf}
		var told []state.Fact[bool]
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Run(ctx, func(change func(*state.NetworkView)) {
				var v state.NetworkView
				change(&v)
				told = append(told, v.MayHold)
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if k.asked > 8 {
			t.Errorf("asked %d times in a minute", k.asked)
		}
		began := time.Now()
		k.inert = true
		k.changed <- struct{}{}
		synctest.Wait()
		if took := time.Since(began); took > 0 || len(told) == 0 || !state.Is(told[len(told)-1], false) {
			t.Errorf("after %s: %+v", took, told)
		}
		stop()
		if err := <-ended; err == nil {
			t.Error("it returned before its context")
		}
	})
}
