package etcdmember

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheRulesOnWhichOtherPackagesRelyExist(t *testing.T) {
	for _, id := range []string{state.EtcdRuleIdle, state.EtcdRuleSoleAlone, state.EtcdRuleFirst, state.EtcdRulePeerDeparts, state.EtcdRuleLostCopyYield, state.EtcdRuleNoSpaceYield, state.EtcdRuleMajorityStart, state.EtcdRuleStallWait} {
		if !slices.ContainsFunc(Rules(), func(r Rule) bool { return r.ID == id }) {
			t.Errorf("there is no rule %s", id)
		}
	}
}

// Other packages read a rule's situation from its id, so the id must not name another
// situation than that in which the rule applies.
func TestARuleOfASituationLiesInItsSection(t *testing.T) {
	sections := map[state.EtcdSituation][]rule{
		state.EtcdLeaves: leavingRules, state.EtcdUnclear: unknownRules, state.EtcdPeerGone: goneRules, state.EtcdTakesOver: takeOverRules,
		state.EtcdNoTaking: widenedRules,
	}
	count := map[string]int{}
	for _, r := range Rules() {
		of := state.EtcdSituationOf(r.ID)
		count[string(of)]++
		if list, ok := sections[of]; ok && !slices.ContainsFunc(list, func(o rule) bool { return o.id == r.ID }) {
			t.Errorf("%s lies elsewhere, in %q", r.ID, r.Section)
		}
	}
	for of := range sections {
		if count[string(of)] == 0 {
			t.Errorf("no rule belongs to %s", of)
		}
	}
}
