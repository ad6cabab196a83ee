package cli

import (
	"context"
	"errors"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
)

// pairPlans are the last plans on this host that two hosts carry, nil for none.
type pairPlans struct {
	wide *widen.Plan
	slim *narrow.Plan
}

func (g *growth) pairPlans() (pairPlans, error) {
	wide, err := g.store.WidenPlan()
	slim, unread := g.store.NarrowPlan()
	return pairPlans{wide, slim}, errors.Join(err, unread)
}

// follow goes on with the one that is under way, and reports whether there is one.
func (p pairPlans) follow(ctx context.Context, g *growth) (bool, error) {
	switch {
	case p.wide != nil && !p.wide.Stage.Over():
		return true, g.runThree(ctx, p.wide)
	case p.slim != nil && !p.slim.Stage.Over():
		return true, g.runTwo(ctx, p.slim)
	}
	return false, nil
}

// narrowed reports whether the later one of both is that for two control planes.
func (p pairPlans) narrowed() bool {
	return p.slim != nil && (p.wide == nil || p.slim.Written.After(p.wide.Written))
}

// later reports whether the later one of both was written after another plan, which may be nil.
func (p pairPlans) later(plan *replace.Plan) bool {
	switch {
	case p.narrowed():
		return plan == nil || p.slim.Written.After(plan.Written)
	case p.wide != nil:
		return plan == nil || p.wide.Written.After(plan.Written)
	}
	return false
}

// ended prints the end of the later one of both.
func (p pairPlans) ended(g *growth) error {
	if p.narrowed() {
		return g.endedTwo(p.slim)
	}
	return g.endedThree(p.wide)
}

// dropWish drops a wish for a plan that two hosts carry, whose gates are closed, and reports whether there
// was one.
func (g *growth) dropWish() (bool, error) {
	if dropped, err := g.dropThree(); dropped || err != nil {
		return dropped, err
	}
	return g.dropTwo()
}
