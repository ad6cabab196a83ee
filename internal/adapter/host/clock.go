package host

import (
	"context"
	"time"
)

// Sleep waits for d, or returns the cause of the context's end if that comes
// first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
