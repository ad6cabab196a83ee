// Package narrow carries out the plan by which three control planes become two, on both hosts that stay
// (docs/adr/0102). decide/narrow says what comes next. This package looks, does one act, and looks again.
// It owns the files of such a plan below /var/lib/holdfast/replace except the wish, and remembers nothing
// else that counts, so it may be killed at any line. It never touches the host that goes, but for its
// Node, its pods and its member of etcd.
package narrow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation is set on the Node of the host that carries a plan, and has the plan's ID.
const Annotation = state.AnnotationTwoPlanes

// Job is the input of a look and of an act. Plan and Wish are nil if there is none.
type Job struct {
	Plan *narrow.Plan
	Wish *narrow.Wish
}

// World has the effects of a plan, apart from its own files.
type World struct {
	// Look gathers the facts. A fact that it cannot find out stays unknown.
	Look func(ctx context.Context, job Job) narrow.Facts
	// Do has one function for each act that changes the world.
	Do map[narrow.Act]func(ctx context.Context, job Job) error
}

// Agent carries plans out.
type Agent struct {
	Store replacement.Store
	World World
	Now   func() time.Time

	news carry.News
	kick loop.Kick
}

// New returns the agent of this host.
func New(world World) *Agent {
	return &Agent{Store: replacement.ThisStore(), World: world, Now: time.Now, news: carry.News{Annotation: Annotation}, kick: loop.NewKick()}
}

// The pause between two looks, and the limit of one run: packages are installed in it.
const (
	often = 2 * time.Second
	limit = 20 * time.Minute
)

// Task returns the task that carries plans out. If there is neither a wish nor a plan, it reads two
// files and ends.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "two control planes", Wake: a.kick, Every: often, Retry: often, Limit: limit, Step: a.Step}
}

// Nodes hears the API's list of nodes.
func (a *Agent) Nodes(list []state.Node) {
	if a.news.Nodes(list, a.Now()) {
		a.kick.Kick()
	}
}

// Step does one act after the other, until it has to wait or nothing is left to do.
func (a *Agent) Step(ctx context.Context) (loop.Result, error) { return carry.Steps(ctx, a.look) }

// look returns what follows from one look, nil if there is nothing to decide.
func (a *Agent) look(ctx context.Context) (*carry.Round, error) {
	wish, err := a.Store.NarrowWish()
	plan, unread := a.Store.NarrowPlan()
	job := Job{Plan: plan, Wish: wish}
	if err := errors.Join(err, unread); err != nil || wish == nil && a.news.Quiet(own(plan)) {
		return nil, err
	}
	f := a.World.Look(ctx, job)
	f.Plan, f.Wish = job.Plan, job.Wish
	d := narrow.Decide(f)
	r := &carry.Round{
		Words: d.Words, Act: func(ctx context.Context) error { return a.act(ctx, d, job) },
		Tell: func(failed error) error { return a.tell(d, f, failed) },
	}
	switch d.Act { //nolint:exhaustive // the others are done
	case narrow.Wait:
		r.Wait = func() error { return a.tell(d, f, nil) }
	case narrow.Idle:
		r.Rest = func() error { return a.rest(d, f) }
	}
	return r, nil
}

// own returns what the news of a plan are compared with.
func own(p *narrow.Plan) carry.Own {
	if p == nil {
		return carry.Own{}
	}
	return carry.Own{ID: p.ID, Over: p.Stage.Over()}
}

// rest removes the wish and the accounts of BMCs, and remembers that nothing of the plan is left to do.
func (a *Agent) rest(d narrow.Decision, f narrow.Facts) error {
	newer, err := a.Store.ClearNarrowWish(f.Wish)
	if err := errors.Join(a.tell(d, f, nil), err); err != nil || newer {
		return err // the next look sees a wish that came since this one; the accounts are for it
	}
	if err := a.forget(f.Plan); err != nil {
		return err
	}
	a.news.Rest(own(f.Plan), state.Fact[string]{Known: f.Lock.Known, Value: f.Lock.Value.ID}, a.Now())
	return nil
}

// forget removes what a plan that is over needs no more. What it takes to be taken back stays until then.
func (a *Agent) forget(p *narrow.Plan) error {
	if p != nil && p.Stage == narrow.Whole {
		if err := a.Store.PutNarrowTrace(replacement.NarrowTrace{}); err != nil {
			return err
		}
	}
	trace, err := a.Store.NarrowTrace()
	if err != nil || trace != (replacement.NarrowTrace{}) {
		return err
	}
	return a.Store.DropNarrowTarget()
}

// act does one act.
func (a *Agent) act(ctx context.Context, d narrow.Decision, job Job) error {
	switch d.Act { //nolint:exhaustive // the others are those of the world
	case narrow.WritePlan:
		return a.Store.PutNarrowPlan(*d.Plan)
	case narrow.TakeOver:
		return a.takeOver(*d.Plan)
	case narrow.DropWish:
		_, err := a.Store.ClearNarrowWish(job.Wish) // a newer one stays
		return err
	}
	do := a.World.Do[d.Act]
	if do == nil {
		return fmt.Errorf("%s: this release does not know how", d.Act)
	}
	if err := do(ctx, job); err != nil {
		return fmt.Errorf("go on with two control planes without %s: %s: %w", job.Plan.Old.Name, d.Act, err)
	}
	return nil
}

// takeOver has this host carry the plan. The host that carried it may have given the cluster what two have.
// It did so once this one knew the target, and not before.
func (a *Agent) takeOver(p narrow.Plan) error {
	target, err := a.Store.NarrowTarget()
	if err != nil {
		return err
	}
	if target != nil && target.Plan == p.ID && !p.Stage.Over() {
		trace, err := a.Store.NarrowTrace()
		if err != nil {
			return err
		}
		trace.Dressing = true
		if err := a.Store.PutNarrowTrace(trace); err != nil {
			return err
		}
	}
	return a.Store.PutNarrowPlan(p)
}

// tell writes the last decision for the command, if it has changed.
func (a *Agent) tell(d narrow.Decision, f narrow.Facts, failed error) error {
	now := replacement.NarrowDoing{Step: d.Step, Rule: d.Rule, Words: d.Words, Way: d.Way, Act: d.Act}
	if failed != nil {
		now.Problem = failed.Error()
	}
	if f.Wish != nil && (d.Rule == "rest.refuse" || d.Rule == "rest.dry") {
		now.Wish, now.Gates = f.Wish.ID, narrow.Gates(f, *f.Wish)
	}
	return carry.Tell(now, a.Store.NarrowDoing, a.Store.PutNarrowDoing)
}
