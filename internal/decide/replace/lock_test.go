package replace

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheLockSaysWhichPlanIsInForce(t *testing.T) {
	text := func(p Plan) string {
		t.Helper()
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	grows := Plan{ID: "p1", Grows: true, Survivor: "cp-1", New: New{Name: "cp-2"}, By: "ada"}
	replaces := Plan{ID: "p1", Survivor: "cp-1", Old: Old{Name: "cp-2"}, New: New{Name: "cp-3"}, By: "ada"}
	unread := "the plan p1 changes the control planes (ConfigMap kube-system/holdfast-replace has no copy of it that can be read)"
	for _, c := range []struct {
		lock map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{LockCopy: text(grows)}, ""},
		{map[string]string{LockKey: "p1", LockCopy: text(grows)}, "the plan p1 of ada brings cp-2 as the second control plane; to follow it, on cp-1: sudo holdfast topology apply"},
		{map[string]string{LockKey: "p1", LockCopy: text(replaces)}, "the plan p1 of ada replaces cp-2; to follow it, on cp-1: sudo holdfast host replace cp-2"},
		{map[string]string{LockKey: "p1"}, unread},
		{map[string]string{LockKey: "p1", LockCopy: "{"}, unread},
		{map[string]string{LockKey: "p1", LockCopy: text(Plan{ID: "p2", New: New{Name: "cp-2"}})}, unread},
	} {
		if got := InForce(c.lock); got != c.want {
			t.Errorf("%v: %q, want %q", c.lock, got, c.want)
		}
	}
	widens := Plan{ID: "p1", Widens: true, Survivor: "cp-1", New: New{Name: "cp-3"}, By: "ada"}
	alone := widens
	alone.Alone = "cp-2"
	if got, want := InForce(map[string]string{LockKey: "p1", LockCopy: text(alone)}), "the plan p1 of ada brings cp-3 as the third control plane, and is taken back since cp-2 went on alone; to follow it, on cp-2: sudo holdfast topology apply"; got != want {
		t.Errorf("%q", got)
	}
	taken := Plan{ID: "p1", Narrows: true, Survivor: "cp-1", Taken: "cp-2", Old: Old{Name: "cp-3"}, By: "ada"}
	if got, want := InForce(map[string]string{LockKey: "p1", LockCopy: text(taken)}), "the plan p1 of ada takes cp-3 out: two control planes stay, and is taken back by cp-2 since cp-1 is lost; to follow it, on cp-2: sudo holdfast topology apply"; got != want {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		lock map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{LockKey: "p1", LockCopy: text(widens)}, "cp-3"},
		{map[string]string{LockKey: "p1", LockCopy: text(Plan{ID: "p1", Narrows: true, Survivor: "cp-1", Old: Old{Name: "cp-3"}, By: "ada"})}, "cp-3"},
		{map[string]string{LockKey: "p2", LockCopy: text(widens)}, ""},
		{map[string]string{LockKey: "p1", LockCopy: text(replaces)}, ""},
		{map[string]string{LockKey: "p1", LockCopy: "{"}, ""},
	} {
		if got := ThirdOf(c.lock); got != c.want {
			t.Errorf("%v: %q, want %q", c.lock, got, c.want)
		}
	}
}

// TestWhoWaitsForAnotherPlanIsToldOfItInOneLine names its kind, its host and the command to look with. No
// command prints the whole copy of the plan.
func TestWhoWaitsForAnotherPlanIsToldOfItInOneLine(t *testing.T) {
	const words = "another change of the control planes is under way"
	of := map[string]string{LockKey: "p1", LockCopy: `{"id":"p1","narrows":true,"survivor":"cp-1","by":"ada","old":{"name":"cp-3"}}`}
	for inForce, want := range map[string]string{
		"":          words,
		InForce(of): words + ": the plan p1 of ada takes cp-3 out: two control planes stay; to follow it, on cp-1: sudo holdfast topology apply",
	} {
		if g := LockedBy(inForce); g.Open || g.Words != want || g.Way != "holdfast status" {
			t.Errorf("%+v", g)
		}
	}
}

// TestTheClustersCopyTellsTheStageOfThePlan goes through the stages from which a plan only goes forward, of
// a replacement, a growth and the way to one: the copy has the stage before anything else happens.
func TestTheClustersCopyTellsTheStageOfThePlan(t *testing.T) {
	plans := []Plan{
		{Stage: Retired},
		{Stage: Joining},
		{Stage: Widening, Grows: true},
		{Stage: Waiting, Grows: true},
		{Stage: Joining, Grows: true},
		{Stage: Retired, Shrinks: true},
		{Stage: Narrowing, Shrinks: true},
	}
	for _, p := range plans {
		p.ID, p.Format = "p1", Format
		f := Facts{Now: noon, Plan: &p, Lock: state.Known("p1"), Copied: Planned, Retirement: state.Known(true), Ring: state.Known([]string{"cp-1"})}
		if d := Decide(f); d.Rule != "lock.stage" || d.Act != CopyPlan || d.Plan != nil {
			t.Errorf("%s, grows %t: %+v", p.Stage, p.Grows, d)
		}
		f.Copied = p.Stage
		if d := Decide(f); d.Act == CopyPlan {
			t.Errorf("%s, grows %t: the copy has its stage: %+v", p.Stage, p.Grows, d)
		}
	}
}

// TestTheCopyOfAReplacementSaysThatAPersonInstallsTheMachine: hosts may boot while that lasts, and no
// longer once the machine was let in.
func TestTheCopyOfAReplacementSaysThatAPersonInstallsTheMachine(t *testing.T) {
	w := start(true, false)
	for range 100 {
		d := Decide(w.facts())
		if d.Act == Wait {
			break
		}
		all := w.acted(t, d)
		w = all[len(all)-1]
	}
	if d := Decide(w.facts()); d.Rule != "newcomer.install" || w.stage != Retired || w.copied != Waiting {
		t.Fatalf("%s, copy %s", d.Rule, w.copied)
	}
	w.asks = true
	for w.stage == Retired {
		all := w.acted(t, Decide(w.facts()))
		w = all[len(all)-1]
	}
	if d := Decide(w.facts()); d.Rule != "lock.stage" {
		t.Errorf("after the newcomer was let in: %+v", d)
	}
}

// copiedBy is the stage of the copy that a decision has the agent write.
func copiedBy(d Decision, stage Stage) Stage {
	if d.Plan != nil {
		return d.Plan.Stage
	}
	return stage
}

// calm reports whether hosts may boot by a copy (plans.Changes).
func calm(copied Stage) bool { return copied == Planned || copied == Waiting }
