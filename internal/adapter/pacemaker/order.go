package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Each function below is a row of the table in internal/testkit/arch, which names the
// packages that may call it.

// orderTimeout bounds an order that only has to be taken, not carried out.
const orderTimeout = 5 * time.Second

// confirmTimeout bounds the confirmation that a node is down.
const confirmTimeout = 20 * time.Second

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
	// --tolerance: another request may have done it while this one was made.
	if err := order(ctx, budget+orderTimeout, "stonith_admin", "--reboot", node, timeout(budget), "--tolerance=5s"); err != nil {
		return fmt.Errorf("fence %s: %w", node, err)
	}
	return nil
}

// FenceFrom has Pacemaker of another host do what Fence does here. It does it
// anew also where the node was fenced a moment ago: it is for rehearsals.
func FenceFrom(ctx context.Context, by host.Runner, node string, budget time.Duration) error {
	if _, err := by(ctx, "stonith_admin", "--reboot", node, timeout(budget)); err != nil {
		return fmt.Errorf("fence %s: %w", node, err)
	}
	return nil
}

// ConfirmDown tells Pacemaker that a node is safely down, which then starts on
// this host what ran there. Whoever calls it must know that the node is off.
func ConfirmDown(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	_, err := host.Run(ctx, host.Command("stonith_admin", "--confirm", node))
	return err
}

func timeout(budget time.Duration) string { return "--timeout=" + strconv.Itoa(int(budget.Seconds())) }

// order runs a command that changes something, bounded.
func order(ctx context.Context, limit time.Duration, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer in time"))
	defer cancel()
	_, err := host.Run(ctx, host.Command(name, args...))
	return err
}
