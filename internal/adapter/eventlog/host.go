package eventlog

import (
	"log/slog"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/pace"
)

// OnThisHost returns the log of a program of this host, which logs what
// keeps events from being written.
func OnThisHost(program string, now func() time.Time, log *slog.Logger) *Log {
	trouble := pace.Trouble{Log: log.With("writing", "events"), Now: now}
	return New(Options{
		Write: func(events []state.Event) error { return records.Files{}.AppendEvents(program, events) },
		Boot:  observe.Boot, Now: now, Hear: trouble.Hear,
	})
}
