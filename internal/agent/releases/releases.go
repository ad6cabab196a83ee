package releases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The pauses of the loop.
const (
	// follow is the pause between two looks at a unit that works.
	follow = 3 * time.Second
	// keepEvery is the pause between two looks whether what is wanted still lies here.
	keepEvery = 10 * time.Minute
	// retry is the pause after the first failure; each further one doubles it, up to
	// maxRetry.
	retry    = 10 * time.Second
	maxRetry = 5 * time.Minute
	limit    = 2 * time.Minute
	// remembered is for how long Whole repeats what it has seen while something is
	// wanted.
	remembered = 20 * time.Second
)

// Unit is what the agent has of the unit that fetches.
type Unit struct {
	// Start has the unit carry a request out, unless it works already.
	Start func(ctx context.Context, request string) error
	// Works reports whether it does.
	Works func(ctx context.Context) (bool, error)
	// State returns what it said last in this boot; zero if it said nothing.
	State func() (State, error)
}

// Options holds what New needs.
type Options struct {
	Host
	Unit
	// Node returns the name of this host's node, empty while that is not known.
	Node func() string
	Now  func() time.Time
}

// Agent is the loop of one host.
type Agent struct {
	Options
	wake loop.Kick

	mu      sync.Mutex
	request string // the annotation, as the watch has it
	turn    bool   // the node has a turn: an upgrade is under way
	failed  string
	whole   state.Fact[[]string]
	seen    time.Time
	// abouts is what the releases in whole say of themselves, by digest: that of a digest never changes.
	abouts map[string]gate.Release

	// Only the loop uses these: the request for which it started the unit and has not
	// seen the end, and how often that failed in a row.
	begun string
	fails int
}

// New returns the loop of a host.
func New(o Options) *Agent { return &Agent{Options: o, wake: loop.NewKick()} }

// Task returns the loop. Until a release is wanted it does nothing.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "releases", Wake: a.wake, Retry: retry, MaxRetry: maxRetry, Limit: limit, Spared: true, Step: a.step}
}

// Nodes hears the nodes of the API.
func (a *Agent) Nodes(list []state.Node) {
	name := a.Node()
	for _, n := range list {
		if n.Name != name || name == "" {
			continue
		}
		request := n.Annotations[annotation.FetchOf]
		a.mu.Lock()
		changed := request != a.request
		a.request, a.turn = request, n.Annotations[annotation.TurnOf] != ""
		a.mu.Unlock()
		if changed {
			a.wake.Kick()
		}
	}
}

// Whole is that of Host; it asks containerd at most every twenty seconds, and every
// ten minutes while nothing is wanted, or what is offered lies here and no upgrade is under
// way: each question is a process.
func (a *Agent) Whole(ctx context.Context) state.Fact[[]string] {
	a.mu.Lock()
	whole, age, life := a.whole, a.Now().Sub(a.seen), remembered
	if wish, err := annotation.Decode[annotation.Fetch](a.request); err == nil && !a.turn && lies(wish.Wanted, whole) {
		life = keepEvery
	}
	a.mu.Unlock()
	if whole.Known && age >= 0 && age < life {
		return whole
	}
	return a.look(ctx)
}

func (a *Agent) look(ctx context.Context) state.Fact[[]string] {
	whole := a.Host.Whole(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whole, a.seen, a.abouts = whole, a.Now(), map[string]gate.Release{}
	return whole
}

// Fetching says how far a fetch is, empty while there is none, and why the last one
// failed, empty if it did not.
func (a *Agent) Fetching() (how, failed string) {
	a.mu.Lock()
	request, failed := a.request, a.failed
	a.mu.Unlock()
	if s, err := a.State(); err == nil && s.Request == request && request != "" {
		how = s.Doing
	}
	return how, failed
}

// About is that of Host: what a release that lies here says of itself. It reads each whole release once
// for each time that Host lists them.
func (a *Agent) About(digest string) (gate.Release, error) {
	a.mu.Lock()
	about, read := a.abouts[digest]
	a.mu.Unlock()
	if read {
		return about, nil
	}
	about, err := a.Host.About(digest) // without the lock: a disk that hangs must not hold up who hears of nodes
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && lies([]string{digest}, a.whole) {
		a.abouts[digest] = about
	}
	return about, err
}

// step looks whether what is wanted lies here, and otherwise has the unit fetch it.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	a.mu.Lock()
	request := a.request
	a.mu.Unlock()
	wish, err := annotation.Decode[annotation.Fetch](request)
	if err != nil {
		return a.over(fmt.Errorf("annotation %s: %w", annotation.FetchOf, err))
	}
	if len(wish.Wanted) == 0 {
		a.begun, a.fails = "", 0
		return a.over(nil)
	}
	works, err := a.Works(ctx)
	if err != nil || works {
		return loop.Result{Again: follow}, err
	}
	said, err := a.State()
	if err != nil {
		return a.later(err)
	}
	switch {
	case a.begun != "":
		return a.ended(request, said)
	case said.Request == request && said.Failed == "" && said.Doing == "" && a.has(ctx, wish.Wanted):
		_, err := a.over(nil)
		return loop.Result{Again: keepEvery}, err
	}
	if err := a.Start(ctx, request); err != nil {
		return a.later(err)
	}
	a.begun = request
	return loop.Result{Again: follow, Changed: "fetches releases: " + strings.Join(wish.Wanted, ", ")}, nil
}

// has reports whether all wanted releases lie here whole.
func (a *Agent) has(ctx context.Context, wanted []string) bool {
	whole := a.look(ctx)
	return whole.Known && lies(wanted, whole)
}

// lies reports whether all wanted releases are among those that lie here whole.
func lies(wanted []string, whole state.Fact[[]string]) bool {
	return !slices.ContainsFunc(wanted, func(d string) bool { return !slices.Contains(whole.Value, d) })
}

// ended takes in how a run of the unit ended.
func (a *Agent) ended(request string, said State) (loop.Result, error) {
	begun := a.begun
	a.begun = ""
	a.mu.Lock()
	a.seen = time.Time{}
	a.mu.Unlock()
	switch {
	case begun != request:
		return loop.Result{Again: -1}, nil // something else is wanted by now
	case said.Request != begun || said.Doing != "":
		return a.later(fmt.Errorf("%s ended in the middle: sudo journalctl -u %s", renderhost.FetchUnit, renderhost.FetchUnit))
	case said.Failed != "":
		return a.later(errors.New(said.Failed))
	}
	a.fails = 0
	_, err := a.over(nil)
	return loop.Result{Again: keepEvery, Changed: "the wanted releases lie here whole"}, err
}

// later says why it failed, and waits longer each time.
func (a *Agent) later(err error) (loop.Result, error) {
	pause := min(retry<<min(a.fails, 10), maxRetry)
	a.fails++
	_, err = a.over(err)
	return loop.Result{Again: pause}, err
}

// over keeps for the cluster why the last fetch failed, if it did.
func (a *Agent) over(err error) (loop.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed = ""; err != nil {
		a.failed = err.Error()
	}
	return loop.Result{}, err
}

// ThisUnit returns the unit of this host. Its file is written when it is first
// needed, and again once a release brings another one.
func ThisUnit() Unit {
	return Unit{
		Start: func(ctx context.Context, request string) error {
			if err := host.WriteFileAtomic(RequestPath, []byte(request), 0o644); err != nil {
				return err
			}
			return host.StartUnit(ctx, renderhost.FetchUnit, renderhost.Fetch())
		},
		Works: func(ctx context.Context) (bool, error) { return host.UnitWorks(ctx, renderhost.FetchUnit) },
		State: func() (State, error) { return host.ReadState[State](StatePath) },
	}
}
