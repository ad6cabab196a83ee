package grow

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/guards"
)

// guarded plays an API with one guard, and counts what is written to it.
type guarded struct {
	API
	annotations map[string]any
	writes      int
}

func (g *guarded) Fields(context.Context, state.ObjectRef) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"annotations": maps.Clone(g.annotations)}}, nil
}

func (g *guarded) Merge(_ context.Context, _ state.ObjectRef, _ bool, _, patch map[string]any) (bool, error) {
	g.writes++
	maps.Copy(g.annotations, patch["metadata"].(map[string]any)["annotations"].(map[string]any))
	return true, nil
}

// lifted reads the guard as the operator does.
func (g *guarded) lifted(now time.Time) bool {
	set := map[string]string{}
	for k, v := range g.annotations {
		set[k], _ = v.(string)
	}
	return guards.Lifted(set, now).Active(now)
}

// docs/facts/loss.md#hard-cases-of-loss, L89: a plan that waits for hours leaves no guard
// lifted behind. What it lifted ends by itself, and it lifts it again when it goes on.
func TestL89APlanThatWaitsLeavesNoGuardLifted(t *testing.T) {
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	guard := state.ObjectRef{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy", Name: "holdfast-topology"}
	g := &guarded{annotations: map[string]any{}}
	for _, step := range []struct {
		what   string
		after  time.Duration
		tries  bool
		writes int
		lifted bool
	}{
		{"the plan begins", 0, true, 1, true},
		{"it tries again at once, since the operator has to follow", time.Second, true, 1, true},
		{"it waits, and the time is nearly over", liftTime - 2*time.Second, false, 1, true},
		{"the guard refuses again, and the plan still waits", time.Second, false, 1, false},
		{"hours later", 5 * time.Hour, false, 1, false},
		{"the plan goes on", time.Second, true, 2, true},
		{"and ends: nobody lifts it any more", liftTime, false, 2, false},
	} {
		now = now.Add(step.after)
		if step.tries {
			if err := lift(t.Context(), g, guard, "the site goes on with one control plane", now); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
		if g.writes != step.writes || g.lifted(now) != step.lifted {
			t.Errorf("%s: %d writes, lifted %v", step.what, g.writes, g.lifted(now))
		}
	}
	if liftTime > guards.LongestLift {
		t.Errorf("%s is more than the operator follows", liftTime)
	}
}
