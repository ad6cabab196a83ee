package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
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
	Board   *Board
	Sources []Source
	Pieces  []Piece
	Logf    func(format string, args ...any)
	Now     func() time.Time

	mu     sync.Mutex
	states map[string]*PieceState
	// Changed, if set, is called after each Reconcile that did something, failed
	// or recovered; it must not block.
	Changed func(PieceState)
}

// PieceState describes how a reconciler is doing.
type PieceState struct {
	Name string `json:"name"`
	// Changed describes its last change, ChangedAt is the time of that.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Error describes why it cannot do its work, empty if it can. Failures counts
	// the failures in a row, since FailingSince.
	Error        string    `json:"error,omitempty"`
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Runs counts all its runs, Took is the duration of the last one.
	Runs int           `json:"runs"`
	Took time.Duration `json:"tookNanoseconds"`
	// Since is the start of the present run, zero if none is under way.
	Since time.Time `json:"runningSince,omitzero"`
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
			if err := s.Run(ctx, a.Board.Update); err != nil && ctx.Err() == nil {
				return fmt.Errorf("source %s: %w", s.Name(), err)
			}
			return nil
		})
	}
	for _, p := range a.Pieces {
		wake := a.Board.Follow()
		group.Go(func() error { a.keep(ctx, p, wake); return nil })
	}
	if err := group.Wait(); err != nil {
		return err // systemd starts the agent again, and what the reconcilers own lives on
	}
	return a.withdraw(asked)
}

// keep runs a reconciler until the context ends.
func (a *Agent) keep(ctx context.Context, p Piece, wake <-chan struct{}) {
	for ctx.Err() == nil {
		pause := a.reconcile(ctx, p)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
			if pause < Resync { // a failing reconciler does not run for each of many changes
				_ = host.Sleep(ctx, firstRetry)
			}
		}
		timer.Stop()
	}
}

// reconcile runs a reconciler once and returns the pause before the next run
// without a change of the view.
func (a *Agent) reconcile(ctx context.Context, p Piece) time.Duration {
	began := a.Now()
	a.note(p.Name(), func(s *PieceState) { s.Since = began })
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	view := a.Board.View()
	changed, err := p.Reconcile(limited, view)
	if ctx.Err() != nil {
		err = nil // it was interrupted
	}
	before, after := a.note(p.Name(), func(s *PieceState) {
		if s.ran(began, a.Now(), changed, err); err == nil {
			s.VIPs = view.Settings.VIPs()
		}
	})
	a.tell(before, after, changed)
	if err != nil {
		return retryAfter(after.Failures)
	}
	return Resync
}

// retryAfter returns the pause after so many failures in a row.
func retryAfter(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// ran records how a run went.
func (s *PieceState) ran(began, ended time.Time, changed string, err error) {
	s.Since, s.Took, s.Runs = time.Time{}, ended.Sub(began), s.Runs+1
	if changed != "" {
		s.Changed, s.ChangedAt = changed, ended
	}
	if err == nil {
		s.Error, s.Failures, s.FailingSince = "", 0, time.Time{}
		return
	}
	if s.Failures == 0 {
		s.FailingSince = ended
	}
	s.Error, s.Failures = err.Error(), s.Failures+1
}

// tell logs what a run changed, and logs an error once.
func (a *Agent) tell(before, after PieceState, changed string) {
	if changed != "" {
		a.Logf("%s: %s", after.Name, changed)
	}
	switch {
	case after.Error != "" && after.Error != before.Error:
		a.Logf("%s: %s", after.Name, after.Error)
	case after.Error == "" && before.Error != "":
		a.Logf("%s: works again after %d tries", after.Name, before.Failures+1)
	case changed == "":
		return
	}
	if a.Changed != nil {
		a.Changed(after)
	}
}

// note changes the state of a reconciler and returns the old and the new one.
func (a *Agent) note(name string, change func(*PieceState)) (before, after PieceState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states == nil {
		a.states = map[string]*PieceState{}
	}
	s := a.states[name]
	if s == nil {
		s = &PieceState{Name: name}
		a.states[name] = s
	}
	before = *s
	change(s)
	return before, *s
}

// States returns how each reconciler is doing, in their order.
func (a *Agent) States() []PieceState {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []PieceState
	for _, p := range a.Pieces {
		if s := a.states[p.Name()]; s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// Hung returns the name of a reconciler whose run has lasted longer than it may
// and that has not heeded its context either, or nothing if there is none.
func (a *Agent) Hung() string {
	for _, s := range a.States() {
		if !s.Since.IsZero() && a.Now().Sub(s.Since) > atMost+atMost/2 {
			return s.Name
		}
	}
	return ""
}

// withdraw withdraws all reconcilers at once, although ctx has ended.
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
