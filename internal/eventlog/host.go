package eventlog

import (
	"time"

	"github.com/holdfast/holdfast/internal/observe"
	"github.com/holdfast/holdfast/internal/records"
	"github.com/holdfast/holdfast/internal/state"
)

// OnThisHost returns the log of a program of this host.
func OnThisHost(program string, now func() time.Time, hear func(error)) *Log {
	return New(Options{
		Write: func(events []state.Event) error { return records.Files{}.AppendEvents(program, events) },
		Boot:  observe.Boot, Now: now, Hear: hear,
	})
}
