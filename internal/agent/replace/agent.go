// Package replace carries out the replacement of a lost host, on the host that stays
// (docs/adr/0083). decide/replace says what comes next. This package looks, does one act,
// and looks again. It owns the files below /var/lib/holdfast/replace except the wish, of
// which it takes away what is answered. It
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
	"reflect"
	"slices"
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
	job, err := a.withSecrets(ctx, d.Act, job)
	if err != nil {
		return err
	}
	switch d.Act { //nolint:exhaustive // the others are no acts of this place
	case replace.WritePlan:
		if d.Plan.Stage == replace.Planned || job.Plan.Stage == replace.Planned && d.Plan.Stage != replace.Aborted {
			if err := a.makeSecrets(d.Plan.ID); err != nil {
				return err
			}
		}
		if d.Plan.Stage == replace.Retired && job.Plan.Stage == replace.Planned {
			if err := a.keepJoinKey(ctx, job.Plan.ID); err != nil {
				return err
			}
		}
		if job.Plan == nil || job.Plan.ID != d.Plan.ID {
			return a.begin(*d.Plan, job)
		}
		return a.Store.PutPlan(*d.Plan)
	case replace.CopyPlan:
		if d.Plan != nil {
			job.Plan = d.Plan
		}
		return a.do(ctx, d.Act, job)
	case replace.DropAbort:
		return a.Store.ClearAbort(job.Order)
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

// errOrderChanged says that the command took its order back, or wrote another one, during the look.
var errOrderChanged = errors.New("the order was taken back or changed while this host looked: nothing was begun")

// begin writes a new plan, if the order by which it is made still stands. A look takes seconds, and in
// them the command may tell a person that nothing was begun.
func (a *Agent) begin(p replace.Plan, job Job) error {
	now, err := a.Store.Order()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, job.Order) {
		return errors.Join(errOrderChanged, a.Store.DropSecrets())
	}
	return a.Store.PutPlan(p)
}

func (a *Agent) do(ctx context.Context, act replace.Act, job Job) error {
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
func (a *Agent) keepJoinKey(ctx context.Context, plan string) error {
	key, err := a.World.JoinKey(ctx)
	if err != nil {
		return err
	}
	secrets, err := a.Store.Secrets(plan)
	if err != nil {
		return err
	}
	secrets.FormerJoinKey = key
	return a.Store.PutSecrets(secrets)
}

// needNone are the acts that need no secret of the plan.
var needNone = []replace.Act{replace.WritePlan, replace.CopyPlan, replace.DropLock, replace.DropAbort, replace.SwitchOff}

// withSecrets returns the job with the secrets of its plan for an act that needs them. If somebody removed
// their file they are made again, as long as nobody has them: until Corosync has loaded its key. Before
// that a plan that is taken back finds the old key in the file; of one that was cut off between the file
// and Corosync nobody can tell that any more, so this plan is no longer taken back.
func (a *Agent) withSecrets(ctx context.Context, act replace.Act, job Job) (Job, error) {
	if slices.Contains(needNone, act) || job.Secrets.Plan == job.Plan.ID {
		return job, nil
	}
	if act != replace.ChangeKey || job.Plan.Reloaded {
		return job, fmt.Errorf("%s: the secrets of the plan %s are missing, and the plan needs them to go on: somebody removed %s; find the file and put it back (mode 0600)", act, job.Plan.ID, replacement.SecretsPath)
	}
	p := *job.Plan
	p.Remade, job.Plan = true, &p
	if err := errors.Join(a.Store.PutPlan(p), a.makeSecrets(p.ID)); err != nil {
		return job, err
	}
	if err := a.keepJoinKey(ctx, p.ID); err != nil {
		return job, err
	}
	var err error
	job.Secrets, err = a.Store.Secrets(p.ID)
	return job, err
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
