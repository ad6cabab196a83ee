// Package replace carries out the replacement of a lost host, on the host that stays
// (docs/adr/0083). decide/replace says what comes next. This package looks, does one act,
// and looks again. It owns the files below /var/lib/holdfast/replace except the wish. It
// remembers nothing else, so it may be killed at any line. It never removes anything of the
// old host without a proof from the same look.
package replace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/replace"
)

// Job is the input of a look and of an act. Plan and Order are nil if there is none.
type Job struct {
	Plan    *replace.Plan
	Order   *replacement.Order
	Secrets replacement.Secrets
}

// World has the effects of a replacement, apart from its own files.
type World struct {
	// Look gathers the facts. A fact that it cannot find out stays unknown.
	Look func(ctx context.Context, job Job) replace.Facts
	// Do has one function for each act that changes the world.
	Do map[replace.Act]func(ctx context.Context, job Job) error
	// JoinKey returns the key of join secrets that is in force.
	JoinKey func(ctx context.Context) ([]byte, error)
}

// Agent carries plans out.
type Agent struct {
	Store  replacement.Store
	World  World
	Random io.Reader
}

// New returns the agent of this host.
func New(world World) *Agent {
	return &Agent{Store: replacement.ThisStore(), World: world, Random: rand.Reader}
}

// The pauses between two looks, and the limit of one run.
const (
	often = 2 * time.Second
	limit = 10 * time.Minute
)

// Task returns the task that carries plans out. If there is neither a wish nor a plan, it
// reads two files and ends.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "replacement of a host", Every: often, Retry: often, Limit: limit, Step: a.Step}
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
	f.Plan = job.Plan
	if job.Order != nil {
		f.Wish = &job.Order.Wish
	}
	d := replace.Decide(f)
	r := &carry.Round{
		Words: d.Words, Act: func(ctx context.Context) error { return a.act(ctx, d, job) },
		Tell: func(failed error) error { return a.tell(d, f, failed) },
	}
	switch d.Act { //nolint:exhaustive // the others are done
	case replace.Wait:
		r.Wait = func() error { return a.tell(d, f, nil) }
	case replace.Idle:
		r.Rest = func() error { return errors.Join(a.tell(d, f, nil), a.tidy(job)) }
	}
	return r, nil
}

func (a *Agent) job() (Job, error) {
	var job Job
	var errs [3]error
	job.Order, errs[0] = a.Store.Order()
	job.Plan, errs[1] = a.Store.Plan()
	if job.Plan != nil {
		job.Secrets, errs[2] = a.Store.Secrets(job.Plan.ID)
	}
	return job, errors.Join(errs[:]...)
}

// idle reports whether there is nothing to decide. A plan that is over keeps its secrets
// until the cluster's copy is gone.
func (a *Agent) idle(j Job) bool {
	return j.Order == nil && (j.Plan == nil || j.Plan.Stage.Over() && !a.Store.HasSecrets() && (!endedWhole(j.Plan) || !a.Store.HasLoneSite()))
}

// tidy removes the files of a plan that is over. The site of a lone control plane stays if its
// growth was taken back, because the same command may go on from there. An order that the command
// has written since the look stays, too, with the site that belongs to it.
func (a *Agent) tidy(job Job) error {
	newer, err := a.Store.ClearOrder(job.Order)
	errs := []error{err, a.Store.DropSecrets()}
	if !newer {
		errs = append(errs, a.Store.DropTargetSite())
	}
	if endedWhole(job.Plan) {
		errs = append(errs, a.Store.DropLoneSite())
	}
	return errors.Join(errs...)
}

// endedWhole reports whether the last plan ended with two hosts. After one that ended with one host
// the file of a lone site is that of a growth which a command prepares now.
func endedWhole(plan *replace.Plan) bool {
	return plan != nil && !plan.Shrinks && plan.Stage == replace.Whole
}

// act does one act. Before it writes a new plan it makes the secrets of that plan, and before it
// retires the old host it keeps the key of join secrets that this one may have.
func (a *Agent) act(ctx context.Context, d replace.Decision, job Job) error {
	switch d.Act { //nolint:exhaustive // the others are no acts of this place
	case replace.WritePlan:
		if d.Plan.Stage == replace.Planned {
			if err := a.makeSecrets(d.Plan.ID); err != nil {
				return err
			}
		}
		if d.Plan.Stage == replace.Retired && job.Plan.Stage == replace.Planned {
			if err := a.keepJoinKey(ctx, job); err != nil {
				return err
			}
		}
		return a.Store.PutPlan(*d.Plan)
	case replace.ChangeKey, replace.JoinRing:
		if err := a.do(ctx, d.Act, job); err != nil {
			return err
		}
		done := *job.Plan
		done.Reloaded, done.Entered = done.Reloaded || d.Act == replace.ChangeKey, d.Act == replace.JoinRing
		return a.Store.PutPlan(done)
	case replace.Finish:
		if err := a.do(ctx, d.Act, job); err != nil {
			return err
		}
		return a.Store.PutPlan(*d.Plan)
	}
	return a.do(ctx, d.Act, job)
}

func (a *Agent) do(ctx context.Context, act replace.Act, job Job) error {
	if job.Secrets.Plan != job.Plan.ID && act != replace.DropLock && act != replace.SwitchOff {
		return fmt.Errorf("%s: the secrets of the plan %s are missing: its file was removed; take the plan back, or put the file back", act, job.Plan.ID)
	}
	do := a.World.Do[act]
	if do == nil {
		return fmt.Errorf("%s: this release does not know how", act)
	}
	if err := do(ctx, job); err != nil {
		return fmt.Errorf("%s: %s: %w", job.Plan.Work(), act, err)
	}
	return nil
}

// tokenBytes is the length of the two hosts' secret, in bytes.
const tokenBytes = 32

// makeSecrets makes the secrets of a plan, unless an earlier try has made them.
func (a *Agent) makeSecrets(plan string) error {
	have, err := a.Store.Secrets(plan)
	if err != nil || have.Plan == plan {
		return err
	}
	raw := make([]byte, tokenBytes)
	if _, err := io.ReadFull(a.Random, raw); err != nil {
		return err
	}
	key, err := keys.JoinKey(a.Random)
	if err != nil {
		return err
	}
	return a.Store.PutSecrets(replacement.Secrets{Plan: plan, Token: hex.EncodeToString(raw), JoinKey: key})
}

// keepJoinKey keeps the key of join secrets in force beside the plan's own. From then on the old host
// learns no other one, so every other key shuts it out: an administrator may replace the plan's.
func (a *Agent) keepJoinKey(ctx context.Context, job Job) error {
	key, err := a.World.JoinKey(ctx)
	if err != nil || job.Secrets.Plan != job.Plan.ID {
		return err // without the secrets of the plan each later act says so
	}
	job.Secrets.FormerJoinKey = key
	return a.Store.PutSecrets(job.Secrets)
}

// tell writes the last decision for the command, if it has changed.
func (a *Agent) tell(d replace.Decision, f replace.Facts, failed error) error {
	now := replacement.Doing{Step: d.Step, Rule: d.Rule, Words: d.Words, Way: d.Way, Act: d.Act}
	if failed != nil {
		now.Problem = failed.Error()
	}
	if f.Wish != nil && (d.Rule == "rest.refuse" || d.Rule == "rest.dry") {
		now.Wish, now.Gates = f.Wish.ID, replace.GatesOf(f, *f.Wish)
	}
	return carry.Tell(now, a.Store.Doing, a.Store.PutDoing)
}
