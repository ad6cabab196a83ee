package widen

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/explore"
)

// TestASiteThatWidensEndsWithThreeHostsOrServesAsTwo visits every state that a power cut of any of the
// three hosts, acts cut halfway and a person who takes the plan back can bring about. In each one etcd
// of each host that has power starts without a person, by itself or by the next act of its own agent,
// or its host waits for its peer as two hosts do. From each one the plan can end.
func TestASiteThatWidensEndsWithThreeHostsOrServesAsTwo(t *testing.T) {
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

// visit visits every state. It returns what is wrong with one of them.
func visit(t *testing.T, cuts int8) (used map[string]int, states int, bad string) {
	first := newWide()
	first.cuts = cuts
	used = map[string]int{}
	// Each state has an end without a person, but for one who took the plan back too late and is asked.
	before, wrong, found := explore.Visit(first, func(w wide) ([]wide, []string) {
		next, wrong := w.next(t, used)
		return next, append(w.mistakes(), wrong...)
	}, func(from, to wide) bool {
		return (from.abort || !to.abort) && (from.says || !to.says) && from.goes == to.goes
	})
	if len(found) > 0 {
		return used, len(before), fmt.Sprintf("%v: %+v", found, wrong)
	}
	if used["dress.whole"] == 0 {
		return used, len(before), "the site never has three control planes"
	}
	stuck := explore.Stuck(before, wide.over)
	if len(stuck) == 0 {
		return used, len(before), ""
	}
	// The last one in the order of the stages shows best what is missing.
	w := slices.MaxFunc(stuck, func(x, y wide) int {
		return order[x.hosts[0].stage] + order[x.hosts[1].stage] - order[y.hosts[0].stage] - order[y.hosts[1].stage]
	})
	return used, len(before), fmt.Sprintf("no way leads to an end: %+v\n%+v\n%+v", Decide(w.facts(0)), Decide(w.facts(1)), w)
}

// TestEachNeedOfThePlanIsNecessary takes one rule out, or one need of a rule, and shows that the model
// finds a mistake then, or a state without an end.
func TestEachNeedOfThePlanIsNecessary(t *testing.T) {
	off := func(r *rule) { r.When = func(Facts) bool { return false } }
	for name, c := range map[string]struct {
		rule   string
		change func(*rule)
		also   string // a rule that is off, too
	}{
		"kubelet of the two does not start at boot":                           {"hand.boot", off, ""},
		"Pacemaker is in maintenance before the other kubelet starts at boot": {"hand.far-boots", off, ""},
		"etcd is stopped while the others do not serve": {"hand.stop", func(r *rule) {
			r.When = func(f Facts) bool { return no(f.Kubelets) && (!yes(f.Halted) || yes(f.Podmans)) }
		}, ""},
		"kubelet gets etcd before it was stopped":          {"hand.stop", off, ""},
		"kubelet gets etcd while podman runs it":           {"hand.give", func(r *rule) { r.When = func(f Facts) bool { return no(f.Kubelets) } }, ""},
		"nobody goes on after a promotion that came first": {"back.late", off, ""},
		"a copy without a plan stays":                      {"gone", off, ""},
		"a late copy of a plan that is whole stays":        {"gone.whole", off, ""},
		"a plan that is whole waits for a lost host for ever": {"over.await", func(r *rule) {
			r.When = func(f Facts) bool { s := f.sight(); return s.Mine && !s.FarOver() && !s.Alone }
		}, ""},
		"a word without a plan stays": {"over.word", off, ""},
		"the member is not named":     {"coming.noted", off, ""},
		"the member is named, and nobody knows its machine": {"coming.await", func(r *rule) {
			r.When = func(f Facts) bool { return state.Is(f.Learner, 0) && !f.waits() }
		}, "coming.machine"},
		"a machine that was installed anew waits for ever":              {"coming.anew", off, ""},
		"a machine that was installed anew gets the member that it had": {"coming.former", off, ""},
		"the learner stays":             {"back.learner", off, ""},
		"a voter that is lost stays":    {"back.voter", off, ""},
		"nobody asks a person about it": {"back.lost", off, ""},
		"nobody goes on without a third host that is lost while etcd moves": {"hand.gone", off, ""},
		"the other host does not learn that the third one is lost": {"take", func(r *rule) {
			was := r.When
			r.When = func(f Facts) bool { return was(f) && (f.Plan == nil || f.Lock.Value.Plan.Stage != f.Plan.Stage) }
		}, ""},
		"the cluster does not learn that the third one is lost": {"copy", func(r *rule) {
			was := r.When
			r.When = func(f Facts) bool { return was(f) && f.Lock.Value.Plan.Stage != f.Plan.Stage }
		}, ""},
		"a plan whose third host is lost goes forward": {"back.late", func(r *rule) {
			r.When = func(f Facts) bool { return state.Is(f.Voters, 3) && state.Is(f.Record, state.EtcdMajority) }
		}, ""},
		"the rest of the new host stays": {"back.new", off, ""},
		"nobody waits for the two keepers, nor for the third host": {"letting.votes", func(r *rule) {
			r.When = func(f Facts) bool { return !state.Is(f.Record, state.EtcdMajority) }
		}, "letting.ready"},
		"a survivor waits for a lost host": {"over.await", func(r *rule) {
			r.When = func(f Facts) bool { return f.Lock.Known && f.Lock.Value.ID == f.Plan.ID && !f.far() }
		}, ""},
		"a survivor leaves the plan to the host that is lost":      {"back.apart", off, ""},
		"a survivor leaves a plan that had not begun to that host": {"planned.apart", off, ""},
		"a survivor does not take the end of a plan": {"take", func(r *rule) {
			was := r.When
			r.When = func(f Facts) bool { return was(f) && !f.Lock.Value.Plan.Stage.Over() }
		}, ""},
		"a copy that was ended is never taken again": {"take", func(r *rule) {
			was := r.When
			r.When = func(f Facts) bool { return was(f) && (f.Plan == nil || f.Plan.Stage != Aborted) }
		}, ""},
		"a survivor knows the third host's member only by the plan": {"back.learner", func(r *rule) {
			r.When = func(f Facts) bool {
				return f.Learner.Known && f.Learner.Value != 0 && (f.Learner.Value == f.Plan.Third || f.Plan.Third == 0 && f.LearnerName == "")
			}
		}, "back.alone"},
		"a host that was off goes on with a plan that is taken back":           {"back.followed", off, ""},
		"a host that was off goes on with a plan that the cluster has no more": {"back.gone", off, ""},
		"a host that was off brings a plan back that was ended": {"copy", func(r *rule) {
			r.When = func(f Facts) bool {
				return (yes(f.Kubelets) || !yes(f.Halted)) && f.Lock.Known && (f.gone() || f.Lock.Value.Plan.Stage != f.Plan.Stage)
			}
		}, "back.gone"},
		"a host that was off waits for one that has ended the plan": {"back.far", func(r *rule) {
			r.When = func(f Facts) bool { return !f.far() && !f.alone() }
		}, ""},
		"the cluster's copy stays old": {"copy", off, ""},
		"the other host does not tell": {"tell", off, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, c.rule, c.change)
			if c.also != "" {
				changed(t, c.also, off)
			}
			if _, n, bad := visit(t, 1); bad == "" {
				t.Errorf("none of %d states shows that it is needed", n)
			} else {
				t.Log(bad[:min(len(bad), 300)])
			}
		})
	}
}

// TestALostVoterIsRemovedOnlyWhileTheOtherTwoServe needs a second power cut: that of the other host.
func TestALostVoterIsRemovedOnlyWhileTheOtherTwoServe(t *testing.T) {
	changed(t, "back.voter", func(r *rule) {
		r.When = func(f Facts) bool { return f.Plan.Gone && state.Is(f.Voters, 3) }
	})
	if _, n, bad := visit(t, 2); bad == "" {
		t.Errorf("none of %d states shows that it is needed", n)
	} else {
		t.Log(bad[:min(len(bad), 300)])
	}
}

// TestALostVoterIsRemovedOnceItHasBeenSilent: earlier the removal would stop writes for seconds.
func TestALostVoterIsRemovedOnceItHasBeenSilent(t *testing.T) {
	w := newWide()
	w.member, w.started, w.given, w.third = votes, true, true, false
	for i := range w.hosts {
		h := &w.hosts[i]
		h.record, h.word, h.stage, h.noted, h.named, h.gone = state.EtcdMajority, 2, TakingBack, true, true, true
	}
	w.lock, w.lockNoted, w.lockGone = TakingBack, true, true
	for _, c := range []struct {
		silent time.Duration
		serves bool
		want   string
	}{
		{0, false, "back.silent"},
		{silence - 1, false, "back.silent"},
		{silence, false, "back.voter"},
		{0, true, "back.voter"}, // it is back, and ends its connections by itself
	} {
		f := w.facts(0)
		f.Silent, f.ThirdServes = c.silent, state.Known(c.serves)
		if d := Decide(f); d.Rule != c.want {
			t.Errorf("silent for %s, serves %t: %s", c.silent, c.serves, d.Rule)
		}
	}
}

// changed decides by tables in which one rule is changed.
func changed(t *testing.T, id string, change func(*rule)) {
	t.Helper()
	n := 0
	for _, list := range append(slices.Concat(slices.Collect(maps.Values(carrierTable)), slices.Collect(maps.Values(peerTable))), takeRules, goneRules, overRules, restRules) {
		for k := range list {
			if r := &list[k]; r.ID == id {
				was := *r
				t.Cleanup(func() { *r = was })
				change(r)
				n++
			}
		}
	}
	if n == 0 {
		t.Fatalf("no rule %s", id)
	}
}

func allRules() (out []rule) {
	for _, table := range []map[Stage][]rule{carrierTable, peerTable} {
		for _, s := range []Stage{Planned, Coming, LettingIn, TakingBack, Handing, Ending, Dressing, Whole, Aborted} {
			out = append(out, table[s]...)
		}
	}
	return slices.Concat(out, takeRules, goneRules, overRules, restRules)
}
