// Package widen carries out the plan by which two control planes become three, on both of the two
// hosts (docs/adr/0097). decide/widen says what comes next. This package looks, does one act, and
// looks again. It owns the files of such a plan below /var/lib/holdfast/replace except the wish, and
// remembers nothing else that counts, so it may be killed at any line.
package widen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation is set on the Node of the host that carries a plan, and has the plan's ID. Every agent
// hears of Nodes, so the other host learns of a plan without asking the API all the time.
const Annotation = state.AnnotationThirdPlane

// Job is the input of a look and of an act. Plan and Wish are nil if there is none.
type Job struct {
	Plan *widen.Plan
	Wish *widen.Wish
}

// World has the effects of a plan, apart from its own files.
type World struct {
	// Look gathers the facts. A fact that it cannot find out stays unknown.
	Look func(ctx context.Context, job Job) widen.Facts
	// Do has one function for each act that changes the world.
	Do map[widen.Act]func(ctx context.Context, job Job) error
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

// The pause between two looks, and the limit of one run.
const (
	often = 2 * time.Second
	limit = 10 * time.Minute
)

// Task returns the task that carries plans out. If there is neither a wish nor a plan, it reads two
// files and ends.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "third control plane", Wake: a.kick, Every: often, Retry: often, Limit: limit, Step: a.Step}
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
	job, err := a.job()
	if err != nil || a.idle(job) {
		return nil, err
	}
	f := a.World.Look(ctx, job)
	f.Plan, f.Wish = job.Plan, job.Wish
	d := widen.Decide(f)
	r := &carry.Round{
		Words: d.Words, Act: func(ctx context.Context) error { return a.act(ctx, d, job) },
		Tell: func(failed error) error { return a.tell(d, f, failed) },
	}
	switch d.Act { //nolint:exhaustive // the others are done
	case widen.Wait:
		r.Wait = func() error { return a.tell(d, f, nil) }
	case widen.Idle:
		r.Rest = func() error { return a.rest(d, f) }
	}
	return r, nil
}

func (a *Agent) job() (Job, error) {
	wish, err := a.Store.WidenWish()
	plan, unread := a.Store.WidenPlan()
	return Job{Plan: plan, Wish: wish}, errors.Join(err, unread)
}

// idle reports whether there is nothing to decide.
func (a *Agent) idle(j Job) bool { return j.Wish == nil && a.news.Quiet(own(j.Plan)) }

// own returns what the news of a plan are compared with.
func own(p *widen.Plan) carry.Own {
	if p == nil {
		return carry.Own{}
	}
	return carry.Own{ID: p.ID, Over: p.Stage.Over()}
}

// rest removes the wish, and remembers that nothing of the plan is left to do.
func (a *Agent) rest(d widen.Decision, f widen.Facts) error {
	newer, err := a.Store.ClearWidenWish(f.Wish)
	if err := errors.Join(a.tell(d, f, nil), err); err != nil || newer {
		return err // the next look sees a wish that came since this one
	}
	a.news.Rest(own(f.Plan), state.Fact[string]{Known: f.Lock.Known, Value: f.Lock.Value.ID}, a.Now())
	return nil
}

// act does one act.
func (a *Agent) act(ctx context.Context, d widen.Decision, job Job) error {
	if d.Act == widen.WritePlan {
		return a.Store.PutWidenPlan(*d.Plan)
	}
	do := a.World.Do[d.Act]
	if do == nil {
		return fmt.Errorf("%s: this release does not know how", d.Act)
	}
	if err := do(ctx, job); err != nil {
		return fmt.Errorf("bring %s as the third control plane: %s: %w", job.Plan.New.Name, d.Act, err)
	}
	return nil
}

// tell writes the last decision for the command, if it has changed.
func (a *Agent) tell(d widen.Decision, f widen.Facts, failed error) error {
	now := replacement.WidenDoing{Step: d.Step, Rule: d.Rule, Words: d.Words, Way: d.Way, Act: d.Act}
	if failed != nil {
		now.Problem = failed.Error()
	}
	if f.Wish != nil && (d.Rule == "rest.refuse" || d.Rule == "rest.dry") {
		now.Wish, now.Gates = f.Wish.ID, widen.Gates(f, *f.Wish)
	}
	return carry.Tell(now, a.Store.WidenDoing, a.Store.PutWidenDoing)
}
