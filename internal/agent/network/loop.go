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
	// Resync is the pause after which a piece looks at what it owns though the
	// view has not changed: somebody else may have changed that.
	Resync = 30 * time.Second
	// firstRetry and lastRetry bound the pause after an error.
	firstRetry = 250 * time.Millisecond
	lastRetry  = Resync
	// atMost bounds one Reconcile. A piece that is not done by then has failed.
	atMost = time.Minute
	// farewell bounds what all pieces do in an orderly stop.
	farewell = 10 * time.Second
)

// Agent follows the sources with the pieces.
type Agent struct {
	Board   *Board
	Sources []Source
	Pieces  []Piece
	Loops   *loop.Loops

	mu   sync.Mutex
	vips map[string][]netip.Addr // what the view said that a piece last made true
}

// PieceState is how a piece is doing.
type PieceState struct {
	state.Loop
	// VIPs are those of the view that it last made true.
	VIPs []netip.Addr `json:"-"`
}

// Run works until the context ends, or a source cannot go on. When it was asked
// to end it takes the pieces back, each as far as that is right for it. A piece
// that panics ends the process, and systemd starts it anew.
func (a *Agent) Run(asked context.Context) error {
	group, ctx := errgroup.WithContext(asked)
	for _, s := range a.Sources {
		group.Go(func() error {
			if err := s.Run(ctx, a.Board.Update); err != nil && ctx.Err() == nil {
				return fmt.Errorf("source %s: %w", s.Name(), err)
			}
			return nil
		})
	}
	var tasks []loop.Task
	for _, p := range a.Pieces {
		tasks = append(tasks, a.task(p))
	}
	group.Go(func() error { a.Loops.Run(ctx, tasks...); return nil })
	if err := group.Wait(); err != nil {
		return err // systemd starts the agent anew, and the pieces live on
	}
	return a.withdraw(asked)
}

// task has a piece follow the view. A failing one is not tried for each of many
// changes.
func (a *Agent) task(p Piece) loop.Task {
	return loop.Task{
		Name: p.Name(), Part: part, Wake: a.Board.Follow(), RetryDebounce: firstRetry,
		Every: Resync, Retry: firstRetry, MaxRetry: lastRetry, Limit: atMost,
		Step: func(ctx context.Context) (loop.Result, error) {
			view := a.Board.View()
			changed, err := p.Reconcile(ctx, view)
			if err == nil {
				a.note(p.Name(), view.Settings.VIPs())
			}
			return loop.Result{Changed: changed}, err
		},
	}
}

// part is what pieces are called together.
const part = "network"

func (a *Agent) note(name string, vips []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.vips == nil {
		a.vips = map[string][]netip.Addr{}
	}
	a.vips[name] = vips
}

// States returns how each piece is doing, in the order of the pieces.
func (a *Agent) States() []PieceState {
	all := a.Loops.States(part)
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []PieceState
	for _, p := range a.Pieces {
		if i := slices.IndexFunc(all, func(s state.Loop) bool { return s.Name == p.Name() }); i >= 0 {
			out = append(out, PieceState{Loop: all[i], VIPs: a.vips[p.Name()]})
		}
	}
	return out
}

// withdraw takes all pieces back at once; the context that ended is not theirs.
func (a *Agent) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	errs := make([]error, len(a.Pieces))
	var done sync.WaitGroup
	for i, p := range a.Pieces {
		done.Go(func() {
			if err := p.Withdraw(ctx); err != nil {
				errs[i] = fmt.Errorf("withdraw %s: %w", p.Name(), err)
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
