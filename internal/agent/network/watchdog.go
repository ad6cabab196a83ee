package network

import (
	"context"
	"time"
)

// Watchdog says every now and then that the agent works, until the context
// ends: while the board can be read and no piece hangs. Whoever listens ends a
// process that stays silent.
func (a *Agent) Watchdog(ctx context.Context, every time.Duration, alive func() error) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for said := ""; ; {
		a.Board.View()
		hung := a.Hung()
		if hung != "" && hung != said {
			a.Logf("%s hangs: the agent is to be started anew", hung)
		}
		said = hung
		if hung == "" {
			if err := alive(); err != nil {
				a.Logf("watchdog: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}
