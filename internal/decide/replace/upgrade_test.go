package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestU17_APlanAboutALostHostAsksTheUpgradeThreeTimesAndNotWhetherItIsOver has a site in an upgrade
// that waits for the lost host.
func TestU17_APlanAboutALostHostAsksTheUpgradeThreeTimesAndNotWhetherItIsOver(t *testing.T) {
	f, w := ready(), wish()
	f.Work, f.Wish = state.Known("waits for the upgrade: 1 of 2 hosts run the new release"), &w
	if d := Decide(f); d.Rule != "rest.begin" {
		t.Fatalf("a plan is not begun: %+v", d)
	}
	// Nothing of the old host is left, and a machine waits at the door.
	left := start(true, false)
	left.stage, left.ringOld, left.cibOld, left.retirement, left.pods, left.node, left.asks = Retired, false, false, true, false, "none", true
	left.reloaded, left.keyFile, left.keyRuns, left.token, left.join, left.grave, left.lock = true, true, true, true, true, true, true
	gone := two()
	gone.stage, gone.ringOld, gone.cibOld, gone.retirement = Retired, false, false, true
	gone.reloaded, gone.keyFile, gone.token, gone.join, gone.grave, gone.lock, gone.node, gone.pods, gone.leftover = true, true, true, true, true, true, false, false, false
	for what, c := range map[string]struct {
		facts      Facts
		lost       state.Fact[hold.Lost]
		rule, says string
	}{
		"a machine is not let in":                 {left.facts(), state.Known(hold.Lost{Install: "waits for the upgrade: go back, or commit"}), "newcomer.upgrade", "no machine takes the place of cp-2 yet: waits for the upgrade: go back, or commit"},
		"nobody knows whether one may be":         {left.facts(), state.Fact[hold.Lost]{}, "newcomer.upgrade", "no machine takes the place of cp-2 yet: the API does not say how far"},
		"one is, whatever a shrinking site waits": {left.facts(), state.Known(hold.Lost{Narrow: "x"}), "newcomer.device", ""},
		"a site does not shrink":                  {gone.facts(), state.Known(hold.Lost{Narrow: "waits for the upgrade: commit it"}), "narrow.upgrade", "cp-1 does not become a lone control plane yet: waits for the upgrade: commit it"},
		"nobody knows whether it may":             {gone.facts(), state.Fact[hold.Lost]{}, "narrow.upgrade", "the API does not say how far"},
		"it does, whatever a newcomer waits for":  {gone.facts(), state.Known(hold.Lost{Install: "x"}), "narrow.begin", ""},
	} {
		c.facts.Upgrade = c.lost
		if d := Decide(c.facts); d.Rule != c.rule || !strings.Contains(d.Words, c.says) || d.Act == Wait && d.Way != "holdfast upgrade status" {
			t.Errorf("%s: %+v", what, d)
		}
	}
}
