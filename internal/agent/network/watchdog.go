package network

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Watchdog says every now and then that the agent works, until the context
// ends: while the board can be read and no loop hangs. Whoever listens ends a
// process that stays silent.
func (a *Agent) Watchdog(ctx context.Context, every time.Duration, alive func() error) error {
	return host.Watchdog(ctx, every, func() string { a.Board.View(); return a.Loops.Hung() }, alive, a.Loops.Log)
}
