package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// The table in internal/testkit/arch has a row for each function below, with the
// packages that may call it.

// orderTimeout bounds an order that only has to be accepted, not carried out.
const orderTimeout = 5 * time.Second

// confirmTimeout bounds the confirmation that a node is down.
const confirmTimeout = 20 * time.Second

// GrantQuorum ends the state in which a booted host waits for its peer (Corosync's
// wait_for_all). The caller must know that the peer is off.
func GrantQuorum(ctx context.Context) error {
	if err := order(ctx, orderTimeout, "corosync-cmapctl", "-s", "quorum.cancel_wait_for_all", "u8", "1"); err != nil {
		return fmt.Errorf("grant quorum: %w", err)
	}
	return nil
}

// Fence makes Pacemaker switch a node off and on again, and returns once the node was
// confirmed off or could not be. budget bounds all of it, including the device's own
// delay. A node that was fenced in the last seconds is fenced again only anew.
func Fence(ctx context.Context, node string, budget time.Duration, anew bool) error {
	arguments := []string{"--reboot", node, timeout(budget)}
	if !anew { // another request may have fenced it while this one was made
		arguments = append(arguments, "--tolerance=5s")
	}
	if err := order(ctx, budget+orderTimeout, "stonith_admin", arguments...); err != nil {
		return fmt.Errorf("fence %s: %w", node, err)
	}
	return nil
}

// FenceFrom makes Pacemaker on another host do what Fence does here. It fences again
// even if the node was fenced a moment ago: it is for rehearsals.
func FenceFrom(ctx context.Context, by host.Runner, node string, budget time.Duration) error {
	if _, err := by(ctx, "stonith_admin", "--reboot", node, timeout(budget)); err != nil {
		return fmt.Errorf("fence %s: %w", node, err)
	}
	return nil
}

// ConfirmDown tells Pacemaker that a node is safely down. Pacemaker then starts on
// this host what ran there. The caller must know that the node is off.
func ConfirmDown(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	_, err := host.Run(ctx, host.Command("stonith_admin", "--confirm", node))
	return err
}

func timeout(budget time.Duration) string { return "--timeout=" + strconv.Itoa(int(budget.Seconds())) }

// order runs a command that changes something, within a limit.
func order(ctx context.Context, limit time.Duration, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer in time"))
	defer cancel()
	_, err := host.Run(ctx, host.Command(name, args...))
	return err
}
