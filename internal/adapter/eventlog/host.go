package eventlog

import (
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/pace"
)

// OnThisHost returns the log of a program of this host. It logs with logf what
// keeps events from being written.
func OnThisHost(program string, now func() time.Time, logf func(format string, args ...any)) *Log {
	trouble := pace.Trouble{Logf: logf, Now: now}
	return New(Options{
		Write: func(events []state.Event) error { return records.Files{}.AppendEvents(program, events) },
		Boot:  observe.Boot, Now: now, Hear: trouble.Hear,
	})
}
