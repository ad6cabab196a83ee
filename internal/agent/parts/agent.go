package parts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The pauses of the loop.
const (
	// follow is the pause between two looks at a unit that works.
	follow = 2 * time.Second
	// again is how long after a success the part is brought once more if the operator
	// still wants it: something has changed it.
	again = 10 * time.Minute
	// retry is the pause after the first failure; each further one doubles it, up to
	// maxRetry.
	retry    = 10 * time.Second
	maxRetry = 5 * time.Minute
	limit    = time.Minute
)

// Unit is what the agent has of the unit that brings.
type Unit struct {
	// Start has the program of a release bring a part. request comes back in its State.
	Start func(ctx context.Context, request, digest, part string) error
	// Works reports whether it does, and otherwise the exit code of the last run.
	Works func(ctx context.Context) (works bool, code int, err error)
	// State returns what it said last in this boot; zero if it said nothing.
	State func() (State, error)
}

// Options holds what New needs.
type Options struct {
	Unit
	// Node returns the name of this host's node, empty while that is not known.
	Node func() string
	Now  func() time.Time
}

// Agent is the loop of one control plane.
type Agent struct {
	Options
	wake loop.Kick

	mu      sync.Mutex
	request string // the annotation, as the watch has it
	failed  Failure

	// Only the loop uses these: the request for which it started the unit and has not
	// seen the end, the one that failed so often in a row, and until when a part that
	// was brought rests.
	begun, tried string
	fails        int
	rests        time.Time
}

// Failure is why a part was not brought.
type Failure struct {
	// Why is empty if it was, or is on its way.
	Why string
	// Undone is true if it was brought, did not start, and was set back.
	Undone bool
}

// New returns the loop of a host.
func New(o Options) *Agent { return &Agent{Options: o, wake: loop.NewKick()} }

// Task returns the loop. Until the operator asks for a part it does nothing.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "parts", Wake: a.wake, Retry: retry, MaxRetry: maxRetry, Limit: limit, Spared: true, Step: a.step}
}

// Nodes hears the nodes of the API.
func (a *Agent) Nodes(list []state.Node) {
	name := a.Node()
	for _, n := range list {
		if n.Name != name || name == "" {
			continue
		}
		request := n.Annotations[annotation.PartOf]
		a.mu.Lock()
		changed := request != a.request
		a.request = request
		a.mu.Unlock()
		if changed {
			a.wake.Kick()
		}
	}
}

// PartFailed is why the part that is wanted was not brought.
func (a *Agent) PartFailed() Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// step looks whether a part is wanted that the unit has not brought.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	a.mu.Lock()
	request := a.request
	a.mu.Unlock()
	if request != a.tried {
		a.tried, a.fails, a.rests = request, 0, time.Time{}
		a.over(Failure{})
	}
	if request == "" && a.begun == "" {
		return loop.Result{}, nil
	}
	works, code, err := a.Works(ctx)
	if err != nil || works {
		return loop.Result{Again: follow}, err
	}
	said, err := a.State()
	if err != nil {
		return a.later(err)
	}
	if a.begun != "" {
		return a.ended(request, said, code)
	}
	if said.Request == request && said.Undone && forward(request) {
		a.over(Failure{Why: said.Failed, Undone: true})
		return loop.Result{Again: again}, nil // the operator that is back decides what becomes of it
	}
	if said.Request == request && said.Failed == "" {
		if a.rests.IsZero() { // another process of this agent had it brought
			a.rests = a.Now().Add(again)
		}
		if left := a.rests.Sub(a.Now()); left > 0 {
			return loop.Result{Again: min(left, again)}, nil
		}
	}
	return a.start(ctx, request)
}

// forward reports whether a request leads to the new release. On the way back nobody decides
// what becomes of a part that was set back, and it is tried again.
func forward(request string) bool {
	wish, err := annotation.Decode[annotation.Part](request)
	return err != nil || !wish.Back
}

func (a *Agent) start(ctx context.Context, request string) (loop.Result, error) {
	wish, err := annotation.Decode[annotation.Part](request)
	digest, named := clusterversion.Digest(wish.Release)
	switch {
	case err != nil:
		return a.later(fmt.Errorf("annotation %s: %w", annotation.PartOf, err))
	case !named || !parts.Name(wish.Part):
		return a.later(fmt.Errorf("annotation %s: it names no part of a release", annotation.PartOf))
	}
	if err := a.Start(ctx, request, digest, wish.Part); err != nil {
		return a.later(err)
	}
	a.begun = request
	return loop.Result{Again: follow, Changed: "brings " + wish.Part + " of " + digest + " to the cluster"}, nil
}

// ended takes in how a run of the unit ended.
func (a *Agent) ended(request string, said State, code int) (loop.Result, error) {
	begun := a.begun
	a.begun = ""
	wish, _ := annotation.Decode[annotation.Part](begun) // it was read before it was begun
	why := ""
	switch {
	case begun != request:
		return loop.Result{Again: -1}, nil // something else is wanted by now
	case said.Request != begun && code == command.ExitUsage:
		why = "that release is of a time before releases brought their parts: bring them by hand (docs/runbook/upgrade.md)"
	case said.Request != begun:
		why = fmt.Sprintf("%s ended in the middle: sudo journalctl -u %s", renderhost.BringUnit, renderhost.BringUnit)
	case said.Undone && !wish.Back:
		a.over(Failure{Why: said.Failed, Undone: true})
		return loop.Result{Again: again}, fmt.Errorf("%s of %s: %s", wish.Part, wish.Release, said.Failed)
	case said.Failed != "":
		why = said.Failed
	}
	if why != "" {
		next, err := a.later(fmt.Errorf("%s of %s: %w", wish.Part, wish.Release, errors.New(why)))
		if said.Undone {
			a.over(Failure{Why: err.Error(), Undone: true})
		}
		return next, err
	}
	a.fails, a.rests = 0, a.Now().Add(again)
	a.over(Failure{})
	return loop.Result{Again: again, Changed: "brought " + wish.Part + " of " + wish.Release + " to the cluster"}, nil
}

// later says why it failed, and waits longer each time.
func (a *Agent) later(err error) (loop.Result, error) {
	pause := min(retry<<min(a.fails, 10), maxRetry)
	a.fails++
	a.over(Failure{Why: err.Error()})
	return loop.Result{Again: pause}, err
}

// over keeps for the cluster why the part was not brought, if it was not.
func (a *Agent) over(why Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = why
}
