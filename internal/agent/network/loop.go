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
	Logf    func(format string, args ...any)
	Now     func() time.Time

	mu     sync.Mutex
	states map[string]*PieceState
	// Changed, if set, is called after each Reconcile that did something, failed
	// or recovered; it must not block.
	Changed func(PieceState)
}

// PieceState is how a piece is doing.
type PieceState struct {
	Name string `json:"name"`
	// Changed is what it last changed, and ChangedAt when.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Error is why it cannot do what it should, empty where it can; Failures
	// counts the tries that failed in a row, since FailingSince.
	Error        string    `json:"error,omitempty"`
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Runs counts all its runs, Took is how long the last one took.
	Runs int           `json:"runs"`
	Took time.Duration `json:"tookNanoseconds"`
	// Since is when the run began that is under way, zero where none is.
	Since time.Time `json:"runningSince,omitzero"`
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
	for _, p := range a.Pieces {
		wake := a.Board.Follow()
		group.Go(func() error { a.keep(ctx, p, wake); return nil })
	}
	if err := group.Wait(); err != nil {
		return err // systemd starts the agent anew, and the pieces live on
	}
	return a.withdraw(asked)
}

// keep reconciles a piece until the context ends.
func (a *Agent) keep(ctx context.Context, p Piece, wake <-chan struct{}) {
	for ctx.Err() == nil {
		pause := a.reconcile(ctx, p)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
			if pause < Resync { // a failing piece is not tried for each of many changes
				_ = host.Sleep(ctx, firstRetry)
			}
		}
		timer.Stop()
	}
}

// reconcile runs a piece once and returns when it is to be run again though
// nothing changes.
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

// retryAfter is the pause after so many failures in a row.
func retryAfter(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// ran takes in how a run went.
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

// tell logs what a run changed, and an error once.
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

// note changes the state of a piece and returns it as it was and as it is.
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

// States returns how each piece is doing, in the order of the pieces.
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

// Hung returns the name of a piece whose run has lasted longer than it may and
// that has not heeded its context either, empty where there is none.
func (a *Agent) Hung() string {
	for _, s := range a.States() {
		if !s.Since.IsZero() && a.Now().Sub(s.Since) > atMost+atMost/2 {
			return s.Name
		}
	}
	return ""
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
