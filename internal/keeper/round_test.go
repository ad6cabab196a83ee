package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatCannotBeRememberedHoldsUpTheStep: a promise counts only once it outlives the
// daemon.
func TestWhatCannotBeRememberedHoldsUpTheStep(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	memory, err := member.OpenMemory(filepath.Join(dir, "memory"), "boot-2")
	if err != nil {
		t.Fatal(err)
	}
	k.Observer.Memory = memory
	meet(k)
	if _, err := k.Observer.Snapshot(t.Context(), k.Wish()); err != nil { // the membership is remembered
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	keep(t, dir, "no folder")
	k.turn(t.Context())
	if r, _ := k.Report(); len(w.did) > 0 || !strings.Contains(r.Problem, "remember what was seen") {
		t.Errorf("did %q, problem %q", w.did, r.Problem)
	}
}

// TestAFailedStepIsToldAndTheDataAreExaminedAnew: a start that failed may have changed
// them.
func TestAFailedStepIsToldAndTheDataAreExaminedAnew(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	k.Doer.Process = failing{w}
	looked, inspect := 0, k.Observer.Inspect
	k.Observer.Inspect = func(ctx context.Context) (state.EtcdData, error) { looked++; return inspect(ctx) }
	meet(k)
	for range 3 {
		k.turn(t.Context())
	}
	r, _ := k.Report()
	if looked != 3 || r.Problem != "no image" || !slices.Equal(w.did, []string{"start", "start", "start"}) {
		t.Errorf("examined %d times, problem %q, did %q", looked, r.Problem, w.did)
	}
}

// failing is a process that cannot be started.
type failing struct{ *world }

func (f failing) Start(context.Context) error {
	return errors.Join(f.do("start"), errors.New("no image"))
}
