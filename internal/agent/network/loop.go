package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of the loop.
const (
	// Resync is the pause after which a reconciler looks at what it owns even if
	// the view has not changed: somebody else may have changed that.
	Resync = 30 * time.Second
	// firstRetry and lastRetry bound the pause after an error.
	firstRetry = 250 * time.Millisecond
	lastRetry  = Resync
	// atMost bounds one Reconcile. A reconciler that is not done by then has
	// failed.
	atMost = time.Minute
	// farewell bounds the withdrawal of all reconcilers in an orderly stop.
	farewell = 10 * time.Second
)

// Agent runs the sources, and the reconcilers that follow them.
type Agent struct {
	Views       *ViewStore
	Sources     []Source
	Reconcilers []Reconciler
	Loops       *loop.Loops

	mu   sync.Mutex
	vips map[string][]netip.Addr // what the view said that a reconciler last made true
}

// ReconcilerState describes how a reconciler is doing.
type ReconcilerState struct {
	state.Loop
	// VIPs are those of the view that it last made true.
	VIPs []netip.Addr `json:"-"`
}

// Run works until the context ends, or a source fails for good. When it is asked
// to end it withdraws the reconcilers, each as far as that is right for it. A
// panic in one ends the process, and systemd starts it again.
func (a *Agent) Run(asked context.Context) error {
	group, ctx := errgroup.WithContext(asked)
	for _, s := range a.Sources {
		group.Go(func() error {
			if err := s.Run(ctx, a.Views.Update); err != nil && ctx.Err() == nil {
				return fmt.Errorf("source %s: %w", s.Name(), err)
			}
			return nil
		})
	}
	var tasks []loop.Task
	for _, p := range a.Reconcilers {
		tasks = append(tasks, a.task(p))
	}
	group.Go(func() error { a.Loops.Run(ctx, tasks...); return nil })
	if err := group.Wait(); err != nil {
		return err // systemd starts the agent again, and what the reconcilers own lives on
	}
	return a.withdraw(asked)
}

// task has a reconciler follow the view. A failing one is not tried for each of many
// changes.
func (a *Agent) task(p Reconciler) loop.Task {
	return loop.Task{
		Name: p.Name(), Part: part, Wake: a.Views.Follow(), RetryDebounce: firstRetry,
		Every: Resync, Retry: firstRetry, MaxRetry: lastRetry, Limit: atMost,
		Step: func(ctx context.Context) (loop.Result, error) {
			view := a.Views.View()
			changed, err := p.Reconcile(ctx, view)
			if err == nil {
				a.note(p.Name(), view.Settings.VIPs())
			}
			return loop.Result{Changed: changed}, err
		},
	}
}

// part is the name for all reconcilers together.
const part = "network"

func (a *Agent) note(name string, vips []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.vips == nil {
		a.vips = map[string][]netip.Addr{}
	}
	a.vips[name] = vips
}

// States returns how each reconciler is doing, in their order.
func (a *Agent) States() []ReconcilerState {
	all := a.Loops.States(part)
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []ReconcilerState
	for _, p := range a.Reconcilers {
		if i := slices.IndexFunc(all, func(s state.Loop) bool { return s.Name == p.Name() }); i >= 0 {
			out = append(out, ReconcilerState{Loop: all[i], VIPs: a.vips[p.Name()]})
		}
	}
	return out
}

// withdraw withdraws all reconcilers at once, although ctx has ended.
func (a *Agent) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	errs := make([]error, len(a.Reconcilers))
	var done sync.WaitGroup
	for i, p := range a.Reconcilers {
		done.Go(func() {
			if err := p.Withdraw(ctx); err != nil {
				errs[i] = fmt.Errorf("withdraw %s: %w", p.Name(), err)
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
