package installation_test

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestHowFarTwoControlPlanesAreInEveryStateOfTheirConditions: each of the three may be
// missing, false or true.
func TestHowFarTwoControlPlanesAreInEveryStateOfTheirConditions(t *testing.T) {
	kinds := []string{handover.SetupAvailable, handover.SetupProgressing, handover.SetupDegraded}
	done := 0
	for n := range 27 {
		var list []handover.Condition
		is := map[string]int{}
		for i, kind := range kinds {
			is[kind] = n / []int{1, 3, 9}[i] % 3
			if is[kind] > 0 {
				list = append(list, handover.Condition{Type: kind, Status: is[kind] == 2, Message: "of " + kind})
			}
		}
		got := installation.OfTwoNode(list)
		want := installation.TwoNode{
			// Without a word of the operator about what it does, nothing is done.
			Done:  is[handover.SetupAvailable] == 2 && is[handover.SetupProgressing] == 1 && is[handover.SetupDegraded] != 2,
			Doing: "of " + handover.SetupProgressing,
		}
		if is[handover.SetupProgressing] == 0 {
			want.Doing = "the operator has not started yet"
		}
		if is[handover.SetupDegraded] == 2 {
			want.Failing = "of " + handover.SetupDegraded
		}
		if got != want {
			t.Errorf("%v: %+v, want %+v", is, got, want)
		}
		slices.Reverse(list)
		if again := installation.OfTwoNode(list); again != got {
			t.Errorf("%v: in another order %+v", is, again)
		}
		if got.Done {
			done++
		}
	}
	if done != 2 {
		t.Errorf("%d states are done", done)
	}
}

// TestMergedReportsAreInTheOrderOfNamesWhoeverSentThem, and each host is there once,
// by its newer report.
func TestMergedReportsAreInTheOrderOfNamesWhoeverSentThem(t *testing.T) {
	all := []string{"cp-1", "cp-2", "w-1"}
	for n := range 1 << 6 {
		var older, newer []state.Progress
		var want []string
		for i, name := range slices.Backward(all) {
			old, fresh := n&(1<<i) != 0, n&(8<<i) != 0
			if old {
				older = append(older, state.Progress{Host: name})
			}
			if fresh {
				newer = append(newer, state.Progress{Host: name, Complete: true})
			}
			if old || fresh {
				want = append(want, name)
			}
		}
		slices.Reverse(want)
		var got []string
		for _, p := range installation.Merge(older, newer) {
			got = append(got, p.Host)
			if fresh := slices.ContainsFunc(newer, func(o state.Progress) bool { return o.Host == p.Host }); p.Complete != fresh {
				t.Errorf("%v and %v: %s has its older report", older, newer, p.Host)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v and %v: %v, want %v", older, newer, got, want)
		}
	}
}

// TestAGoalThatIsReachedHasNothingOpen, where no mark says so instead of the hosts.
func TestAGoalThatIsReachedHasNothingOpen(t *testing.T) {
	texts := []string{"", "cp-1:bootstrap:join", "cp-1:bootstrap:done", "cp-2:master:join", "cp-2:master:done", "worker-1:worker:join", "worker-1:worker:done"}
	reached := map[bool]int{}
	for _, a := range texts[:3] {
		for _, b := range append(slices.Clone(texts[3:5]), "") {
			for _, c := range append(slices.Clone(texts[5:]), "") {
				site := hosts(a + " " + b + " " + c)
				for _, goal := range []installation.Goal{installation.BootstrapComplete, installation.InstallComplete} {
					want := installation.Expected{ControlPlanes: 2, Workers: 1}
					is, open := installation.Reached(goal, want, site, nil), installation.Open(goal, want, site)
					reached[is]++
					if is != (len(open) == 0) {
						t.Errorf("%s of %q %q %q: reached %t, open %q", goal, a, b, c, is, open)
					}
				}
			}
		}
	}
	if reached[true] != 4 {
		t.Errorf("reached %v", reached)
	}
}
