// Package pace provides waiting with debounce, and throttled error messages, for
// loops that must never exit.
package pace

import (
	"context"
	"errors"
	"time"
)

// Wait waits for an event, or for d, and reports whether the context goes on.
// Events that follow within calm count as one.
func Wait(ctx context.Context, wake <-chan struct{}, d, calm time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-wake:
	}
	timer.Reset(calm)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	select {
	case <-wake:
	default:
	}
	return true
}

// every is the interval at which trouble that lasts is logged again. The errors
// of an unreachable API differ from attempt to attempt, so equal texts cannot
// be counted instead.
const every = time.Minute

// Trouble logs the errors of one loop. Only that loop may use it.
type Trouble struct {
	Logf func(format string, args ...any)
	Now  func() time.Time

	since, told time.Time
}

// Hear takes the result of the last attempt, nil for success. It logs the first
// error, then one each minute while errors last, and finally the recovery. It
// ignores a canceled context.
func (t *Trouble) Hear(err error) {
	now := t.Now()
	switch {
	case errors.Is(err, context.Canceled):
	case err == nil && t.since.IsZero():
	case err == nil:
		t.Logf("works again, after %s", now.Sub(t.since).Round(time.Second))
		t.since = time.Time{}
	case t.since.IsZero():
		t.since, t.told = now, now
		t.Logf("%v", err)
	case now.Sub(t.told) >= every:
		t.told = now
		t.Logf("still failing after %s: %v", now.Sub(t.since).Round(time.Second), err)
	}
}
