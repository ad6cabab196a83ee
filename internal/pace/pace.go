// Package pace tells of errors that last, for loops that must never exit: once,
// then each minute, and that they are over.
package pace

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// every is how often trouble that lasts is told again. An API that is away
// fails in many words, and each attempt in others.
const every = time.Minute

// Trouble tells of what a loop runs into. It is used by that loop alone.
type Trouble struct {
	Log *slog.Logger
	Now func() time.Time

	since, told time.Time
}

// Hear takes what the last attempt ran into, nil for nothing: the first error is
// told, then one each minute while there are any, and that it is over.
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
