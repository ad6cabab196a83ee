package carry

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAPlanWhoseLockWasDeletedIsNewsAgain: this host ended its copy, since the cluster had no lock, and the
// other host, whose Node names the plan all the time, writes the lock again.
func TestAPlanWhoseLockWasDeletedIsNewsAgain(t *testing.T) {
	const annotation = "holdfast.io/plan"
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	names := func(id string) []state.Node {
		return []state.Node{{Name: "cp-1", Annotations: map[string]string{annotation: id}}, {Name: "cp-2"}}
	}
	n := News{Annotation: annotation}
	if !n.Nodes(names("p1"), noon) {
		t.Fatal("the plan is no news")
	}
	ended := Own{ID: "p1", Over: true}
	n.Rest(ended, state.Known(""), noon)
	if !n.Quiet(ended) {
		t.Error("it looks all the time while the cluster has no lock")
	}
	if !n.Nodes(names("p1"), noon.Add(time.Minute)) || n.Quiet(ended) {
		t.Error("it never looks again")
	}
	n.Rest(ended, state.Known("p1"), noon) // an end that the other host tells, before it deletes the lock
	if !n.Quiet(ended) || n.Nodes(names("p1"), noon.Add(2*time.Minute)) {
		t.Error("the end of the plan is news")
	}
}
