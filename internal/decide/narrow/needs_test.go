package narrow

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestASiteThatNarrowsEndsWithTwoHostsOrServesAsThree visits every state that power cuts of any of the
// three hosts, one that never comes back, BMCs that fall silent, acts cut halfway and a person who takes
// the plan back can bring about. In each one etcd of each host that has power starts without a person, or
// its host waits for its peer as two hosts do; no host has the rules of two while three vote; and the
// third member leaves only a pair that can fence each other. From each one the plan can end.
func TestASiteThatNarrowsEndsWithTwoHostsOrServesAsThree(t *testing.T) {
	used, states, bad := visit(t, int8(*cuts))
	if bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%d states", states)
	for _, r := range allRules() {
		if used[r.ID] == 0 && !slices.Contains(elsewhere, r.ID) {
			t.Errorf("rule %s was never used", r.ID)
		}
	}
}

// TestAPersonWhoEndsTheMaintenanceDoesNotStopTheNarrowingPlan has somebody do at any moment what a page
// about the alert says.
func TestAPersonWhoEndsTheMaintenanceDoesNotStopTheNarrowingPlan(t *testing.T) {
	used, states, bad := visit(t, 1, meddles)
	if bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%d states", states)
	for _, id := range []string{"maintain", "hand.maintained"} {
		if used[id] == 0 {
			t.Errorf("rule %s was never used", id)
		}
	}
	changed(t, "maintain", func(r *rule) { r.When = func(Facts) bool { return false } })
	if _, _, bad := visit(t, 1, meddles); bad == "" {
		t.Error("nothing shows that the maintenance has to begin again")
	}
}

// TestANarrowingPlanEndsThoughSomebodyDeletesItsLock at any moment. Until etcd changes hands it is taken back,
// also if the carrier is lost for good then, and later it goes on. No account of a BMC stays in the cluster.
func TestANarrowingPlanEndsThoughSomebodyDeletesItsLock(t *testing.T) {
	used, states, bad := visit(t, int8(*cuts)-1, deletes)
	if bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%d states", states)
	for _, id := range []string{"over.left", "gone.lock", "gone.carrier", "back.gone", "take-over"} {
		if used[id] == 0 {
			t.Errorf("rule %s was never used", id)
		}
	}
}

// TestANarrowingPlanEndsThoughItsCarrierIsReplacedUnderItsOwnName: somebody deleted the lock, which refuses that,
// once the carrier was lost for good. The new machine knows nothing of the plan, and its etcd serves.
func TestANarrowingPlanEndsThoughItsCarrierIsReplacedUnderItsOwnName(t *testing.T) {
	_, states, bad := visit(t, 1, deletes, replaces)
	if bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%d states", states)
	changed(t, "take-over", func(r *rule) {
		r.When = func(f Facts) bool { return f.saysLost() && f.mayTake() && no(f.PeerHere) }
	})
	needed(t, 1, deletes, replaces)
}

// TestEachNeedOfAPlanWhoseLockIsDeletedIsNecessary changes one rule, and shows that the model finds a mistake
// then, or a state without an end.
func TestEachNeedOfAPlanWhoseLockIsDeletedIsNecessary(t *testing.T) {
	for name, c := range map[string]struct {
		rule string
		when func(Facts) bool
	}{
		"the accounts stay":                      {"over.left", func(Facts) bool { return false }},
		"a host takes its part back, and ends":   {"gone", func(f Facts) bool { return f.gone() && !f.Plan.Stage.After(TakingBack) && f.undone() }},
		"a host takes its part of a living plan": {"gone.asked", func(f Facts) bool { return f.gone() && asksAbort(f) && TakingBack.After(f.Plan.Stage) }},
		"a host ends a plan that is not whole": {"gone.whole", func(f Facts) bool {
			return f.gone() && f.Plan.Stage.After(Handing) && !f.Plan.Stage.Over() && f.parted()
		}},
		"nobody takes a plan over without a lock": {"take-over", func(f Facts) bool { return f.saysLost() && f.mine() && f.mayTake() && no(f.PeerHere) }},
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, c.rule, func(r *rule) { r.When = c.when })
			needed(t, 1, deletes)
		})
	}
}

// TestEachNeedOfTheNarrowingPlanIsNecessary takes one rule out, or one need of a rule, and shows that the
// model finds a mistake then, or a state without an end.
func TestEachNeedOfTheNarrowingPlanIsNecessary(t *testing.T) {
	off := func(r *rule) { r.When = func(Facts) bool { return false } }
	need := func(when func(Facts) bool) func(*rule) { return func(r *rule) { r.When = when } }
	for name, c := range map[string]struct {
		rule   string
		change func(*rule)
		also   string // a rule that is off, too
	}{
		"files change before the BMCs were tested":        {"prepare.tested", off, ""},
		"files change before the peer is prepared":        {"prepare.far", off, ""},
		"Corosync begins before the peer is dressed":      {"dress.await", off, ""},
		"the keeper begins without the word":              {"word", off, ""},
		"the BMCs are not tested again before etcd moves": {"pairing.tested", off, ""},
		"nobody asks the keepers":                         {"ask", off, ""},
		"etcd moves before the records":                   {"pairing.record", off, ""},
		"Pacemaker is never in maintenance":               {"set-up", func(r *rule) { r.Act = Manage }, ""},
		"nobody waits for the other two":                  {"hand.take", need(func(f Facts) bool { return yes(f.Kubelets) && f.mayHand() }), ""},
		"both go at once": {"hand.take", need(func(f Facts) bool {
			return yes(f.Kubelets) && yes(f.Maintained) && state.Is(f.Record, state.EtcdMajority)
		}), "hand.turn"},
		"the maintenance ends before both have etcd":       {"hand.kept", off, ""},
		"kubelet leaves the boot in maintenance":           {"hand.unmanaged", off, "hand.tell"},
		"the word stays":                                   {"unword", off, ""},
		"the third leaves before both are there":           {"part.both", off, ""},
		"the third leaves, and nobody can fence":           {"part.tested", off, ""},
		"the third leaves with its pods":                   {"part.empty", off, ""},
		"the third leaves before the peer's kubelet moved": {"hand.far", off, ""},
		"nobody waits for the pair":                        {"part.pair", off, "part.leave"},
		"a host that votes is forgotten":                   {"part.leave", off, "part.pair"},
		"the ring stays":                                   {"back.ring", off, ""},
		"the files of two stay":                            {"back.pair", off, ""},
		"the objects of two stay":                          {"back.dress", off, ""},
		// Without "back.far" the carrier only says too early that the site is as before: "over.await" keeps
		// the lock.
		"a copy without a plan stays":                  {"gone", off, ""},
		"an ended plan waits for a lost host for ever": {"over.await", need(func(f Facts) bool { s := f.sight(); return s.Mine && !s.FarOver() && !s.Alone }), ""},
		"a copy that was taken back stays": {"gone", need(func(f Facts) bool {
			return f.Lock.Known && f.Lock.Value.ID != f.Plan.ID && f.Plan.Stage == Planned
		}), ""},
		"nobody may say that the other host is lost":     {"back.far", need(func(f Facts) bool { return !f.far() || !f.Told.Value.Undone }), ""},
		"nobody may say it once the plan is taken back":  {"back.lost", off, ""},
		"a host that was said to be lost keeps its part": {"gone.asked", off, ""},
		"nobody may say that the carrier is lost":        {"take-over", off, ""},
		"a carrier that serves counts as lost":           {"take-over", need(func(f Facts) bool { return f.saysLost() && f.mayTake() }), ""},
		"a carrier that was said to be lost goes on":     {"ousted", off, ""},
		"the objects of a lost carrier stay":             {"take-over", func(r *rule) { r.Act = WritePlan }, ""},
		"nobody hears that the host is gone":             {"amend", off, ""},
		"the cluster's copy stays old":                   {"copy", off, ""},
		"the other host does not tell":                   {"tell", off, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, c.rule, c.change)
			if c.also != "" {
				changed(t, c.also, off)
			}
			needed(t, 1)
		})
	}
	t.Run("who took over hurries though nobody can know", func(t *testing.T) {
		changed(t, "take-over.await", off)
		needed(t, 2) // the carrier is off, and the host that goes, too
	})
}

// needed shows that the model finds a mistake, or a state without an end.
func needed(t *testing.T, cuts int8, people ...func(*site)) {
	t.Helper()
	if _, n, bad := visit(t, cuts, people...); bad == "" {
		t.Errorf("none of %d states shows that it is needed", n)
	} else {
		t.Log(bad[:min(len(bad), 200)])
	}
}
