package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/plans"
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

// letGo has the agent drop the lock of a plan that is over without a word of the other host, and waits for
// that. It reports whether there is such a plan.
func (p pairPlans) letGo(ctx context.Context, g *growth) (bool, error) {
	wide, err := g.store.WidenDoing()
	slim, unread := g.store.NarrowDoing()
	if err := errors.Join(err, unread); err != nil {
		return false, err
	}
	switch {
	case p.wide != nil && wide != nil && wide.Rule == plans.AwaitRule:
		g.letsGo = true
		return true, g.askBackThree(ctx, p.wide, false)
	case p.slim != nil && slim != nil && slim.Rule == plans.AwaitRule:
		g.letsGo = true
		return true, g.askBackTwo(ctx, p.slim, narrow.Wish{})
	}
	left, err := g.leftTwo(ctx, p.slim)
	if err != nil || !left {
		return false, err
	}
	g.name = p.slim.Old.Name
	return true, g.takeOverTwo(ctx, p.slim)
}

// lockGone reports whether nobody waits until the lock of a plan that is over is gone. now is what the agent
// does, nil for nothing.
func (g *growth) lockGone(now *replacement.Doing) bool {
	return !g.letsGo || now == nil || now.Rule != plans.AwaitRule && now.Problem == ""
}

// over prints the end of a plan, in words or as data, and returns the error of the command. what is the plan.
func (g *growth) over(plan any, takenBack bool, words, what string) error {
	var err error
	if g.output == "json" || g.output == "yaml" {
		err = printData(g.streams.Out, g.output, plan)
	} else {
		_, err = fmt.Fprintln(g.streams.Out, words)
	}
	return errors.Join(err, g.ends(takenBack, what))
}

// ends returns the error of a command whose plan came to its end.
func (g *growth) ends(takenBack bool, what string) error {
	switch {
	case takenBack && !g.abort:
		return coded(command.ExitRefused, "%s was taken back", what)
	case !takenBack && g.letsGo:
		_, err := fmt.Fprintln(g.streams.Err, "the plan was whole, and waited for the other host alone: other plans may begin")
		return err
	case !takenBack && g.abort:
		return coded(command.ExitRefused, "%s was not taken back: it is whole", what)
	}
	return nil
}

// dropWish drops a wish for a plan that two hosts carry, whose gates are closed, and reports whether there
// was one.
func (g *growth) dropWish() (bool, error) {
	if dropped, err := g.dropThree(); dropped || err != nil {
		return dropped, err
	}
	return g.dropTwo()
}
