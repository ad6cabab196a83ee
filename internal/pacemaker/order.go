package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/host"
)

// orderTimeout bounds an order that only has to be taken, not carried out.
const orderTimeout = 5 * time.Second

// GrantQuorum ends the state in which a booted host waits for its peer
// (Corosync's wait_for_all). Whoever calls it must know that the peer is off.
func GrantQuorum(ctx context.Context) error {
	if err := order(ctx, orderTimeout, "corosync-cmapctl", "-s", "quorum.cancel_wait_for_all", "u8", "1"); err != nil {
		return fmt.Errorf("grant quorum: %w", err)
	}
	return nil
}

// Fence has Pacemaker switch a node off and on again, and returns when it was
// confirmed off or could not be. budget bounds the whole; the device's own
// delay is part of it.
func Fence(ctx context.Context, node string, budget time.Duration) error {
	seconds := fmt.Sprintf("--timeout=%d", int(budget.Seconds()))
	// --tolerance: another request may have done it while this one was made.
	if err := order(ctx, budget+orderTimeout, "stonith_admin", "--reboot", node, seconds, "--tolerance=5s"); err != nil {
		return fmt.Errorf("fence %s: %w", node, err)
	}
	return nil
}

// order runs a command that changes something, bounded.
func order(ctx context.Context, limit time.Duration, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer in time"))
	defer cancel()
	_, err := host.Run(ctx, host.Command(name, args...))
	return err
}
