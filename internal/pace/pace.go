// Package pace tells of errors that last, for loops that must never exit: once,
// then each minute, and that they are over.
package pace

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// every is the interval at which trouble that lasts is logged again. The errors
// of an unreachable API differ from attempt to attempt, so equal texts cannot
// be counted instead.
const every = time.Minute

// Trouble logs the errors of one loop. Only that loop may use it.
type Trouble struct {
	Log *slog.Logger
	Now func() time.Time

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
		t.Log.Info("works again", "after", now.Sub(t.since).Round(time.Second))
		t.since = time.Time{}
	case t.since.IsZero():
		t.since, t.told = now, now
		t.Log.Warn("fails", "err", err)
	case now.Sub(t.told) >= every:
		t.told = now
		t.Log.Warn("still fails", "for", now.Sub(t.since).Round(time.Second), "err", err)
	}
}
