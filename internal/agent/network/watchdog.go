package network

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Watchdog calls alive every now and then while the agent works: while the store of the view
// can be read and no loop hangs. It returns when the context ends. systemd ends a
// process that stays silent.
func (a *Agent) Watchdog(ctx context.Context, every time.Duration, alive func() error) error {
	return host.Watchdog(ctx, every, func() string { a.Views.View(); return a.Loops.Hung() }, alive, a.Loops.Log)
}
