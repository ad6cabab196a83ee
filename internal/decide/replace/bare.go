package replace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// gone reports whether the old host is off in this moment.
func (f Facts) gone() bool { _, ok := f.off(f.Plan.Accepts.Gone); return ok }

// bare reports whether nothing of the old host is left. It is false while a fact about that is
// unknown.
func (f Facts) bare() bool {
	return f.Plan.Reloaded && yes(f.Key) && yes(f.Token) && yes(f.JoinKey) && yes(f.Tombstone) && no(f.Leftover) && yes(f.Retirement) &&
		f.OldNode.Known && !f.oldNode() && state.Is(f.Pods, 0) &&
		f.Ring.Known && f.Known.Known && state.Is(f.Voters, 1) && state.Is(f.Learner, 0)
}

// bound names the pods that are bound to the old name and do not hold the plan.
func bound(f Facts) string {
	const most = 3
	named, more := f.Bound, ""
	switch n := len(named); {
	case n == 0:
		return ""
	case n > most:
		named, more = named[:most], fmt.Sprintf("; and %d more", n-most)
	}
	return ". Still bound to the name " + old(f) + ": " + strings.Join(named, "; ") + more
}

// oldNode reports whether the Node of the old host is there.
func (f Facts) oldNode() bool { return f.OldNode.Value.There && f.OldNode.Value.UID == f.Plan.Old.UID }

func equalUUID(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// Line is a row of the table of rules, for people.
type Line struct {
	Step, Rule string
	Act        Act
}

// Rules returns the rules in their order, those that two tables share once.
func Rules() []Line {
	var out []Line
	for _, list := range [][]rule{restRules, amendRules, plannedRules, alarmRules, retiredRules, namedRules, calmRules, upgradeRules, growRules, wideningRules, newcomerRules, joiningRules, narrowWaits, narrowRules, narrowingRules} {
		for _, r := range list {
			if l := (Line{r.step, r.id, r.act}); !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
	}
	return out
}

// Gone reports whether the old host of the plan is off in this moment. An act asks it before it
// removes something of that host.
func Gone(f Facts) bool { return f.gone() }
