package apply

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/plan"
)

// Conform returns the steps that make files, units and keys of the host what a
// configuration says, and nothing else: it installs no package, starts nothing
// and has systemd read nothing. observed is what Observe found for at least that
// configuration. After a run that may have been cut, the steps include those whose
// effect nobody sees. The error is an *InputError.
func (*Host) Conform(d plan.Desired, observed plan.Observed, cut bool) (plan.Plan, error) {
	observed.Live, observed.Journal = false, plan.Journal{}
	if cut {
		observed.Journal.InProgress = "unknown"
	}
	p, err := plan.Make(d, observed, plan.Options{SkipPackages: true})
	if err != nil {
		return plan.Plan{}, &InputError{Err: err}
	}
	return p, nil
}

// Take takes one step after the other. No other run of this package may change
// the host meanwhile: see Alone.
func (h *Host) Take(ctx context.Context, steps []plan.Step) error {
	for _, s := range steps {
		if err := h.take(ctx, s.Action, executeOptions{}); err != nil {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
	}
	return nil
}

// aloneWithin bounds the wait for another run, and aloneAgain is the pause before the next try.
const (
	aloneWithin = time.Minute
	aloneAgain  = 200 * time.Millisecond
)

// Alone keeps other runs from the host until the returned function is called. It waits for one
// that is in progress: what a person runs at the same moment is no fault of this run.
func (h *Host) Alone(ctx context.Context) (func(), error) {
	limited, cancel := context.WithTimeout(ctx, aloneWithin)
	defer cancel()
	for {
		unlock, err := h.lock()
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return unlock, err
		}
		if host.Sleep(limited, aloneAgain) != nil {
			return nil, err
		}
	}
}
