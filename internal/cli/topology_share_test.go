package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAGrowthNeedsAShareOfThePodNetwork for the new host: those of the first day and all that were added
// since count. The site has 256.
func TestAGrowthNeedsAShareOfThePodNetwork(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, func(int, *growthRun)) *growthRun{"cp-2": newGrowthRun, "cp-3": newThreeRun} {
		g := begin(t, func(int, *growthRun) { t.Errorf("%s: the command waits", name) })
		nodes := []state.Node{{Name: name}} // a run that was cut off had let it in
		g.effects.nodes = func(context.Context) ([]state.Node, error) { return nodes, nil }
		for i := range 255 {
			nodes = append(nodes, state.Node{Name: fmt.Sprintf("n-%d", i)})
		}
		if err := g.plan(t.Context()); err != nil {
			t.Errorf("%s has the last share: %v", name, err)
		}
		nodes = append(nodes, state.Node{Name: "one-more"})
		for what, do := range map[string]func(context.Context) error{"plan": g.plan, "run": g.run} {
			err := do(t.Context())
			if exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "the pod network has room for 256 hosts and 256 are nodes") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		order, err := g.store.Order()
		wish, unread := g.store.WidenWish()
		if order != nil || wish != nil || err != nil || unread != nil || g.prepared > 0 {
			t.Errorf("%s: something was begun", name)
		}
	}
}
