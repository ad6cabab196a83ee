package mayhold

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/state"
)

// run runs a source in a bubble and returns what it says after a while.
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

func inert(v bool) func(context.Context) (state.EtcdReport, error) {
	return func(context.Context) (state.EtcdReport, error) {
		r := state.EtcdReport{Snapshot: state.EtcdSnapshot{Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair})}}
		r.Snapshot.Pacemaker.Inert = state.Known(v)
		return r, nil
	}
}

func silent(context.Context) (state.EtcdReport, error) {
	return state.EtcdReport{}, errors.New("nobody")
}

func TestHardCase40_AHostHoldsNothingUntilItHasQuorumInItsBoot(t *testing.T) {
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Source{Fencing: true, Path: filepath.Join(dir, "run", "may-hold"), Record: record}
	for _, step := range []struct {
		name string
		ask  func(context.Context) (state.EtcdReport, error)
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

func TestWithoutFencingNobodyIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Source{Path: filepath.Join(t.TempDir(), "may-hold"), Record: "/nowhere", Ask: func(context.Context) (state.EtcdReport, error) {
			t.Error("asked")
			return state.EtcdReport{}, nil
		}}
		if got := run(t, s, 5*time.Second); !state.Is(got, true) {
			t.Errorf("%+v", got)
		}
	})
}
