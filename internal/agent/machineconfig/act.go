package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/hostchange"
)

// do does a step, and reports whether there was anything to do.
func (a *Agent) do(ctx context.Context, s hostapply.Step) bool {
	var err error
	switch s.Do {
	case hostapply.Write:
		err = a.write(ctx, s)
	case hostapply.Act:
		err = a.act(ctx)
	case hostapply.Reboot:
		a.reboot(ctx)
		return false
	case hostapply.Fetch, hostapply.Install:
		a.startUpdates(ctx, s.Do == hostapply.Install)
		return false
	case hostapply.Nothing, hostapply.Drain:
		return false // the operator drains
	}
	if ctx.Err() != nil {
		return false // the agent ends: the next one does it again
	}
	if err != nil && a.stopping(ctx) {
		return false // the one after the boot does it again
	}
	a.did, a.failed = s.Do, ""
	if err != nil {
		a.did, a.failed = hostapply.Nothing, err.Error()
	}
	return true
}

// stopping reports whether the host is known to shut down. systemd then starts nothing any
// more, and ends what writes: what fails meanwhile says nothing of a configuration.
func (a *Agent) stopping(ctx context.Context) bool {
	down, err := a.goesDown(ctx)
	return err == nil && down
}

// write stops what ends, and has the files written.
func (a *Agent) write(ctx context.Context, s hostapply.Step) error {
	plan, err := a.present(ctx)
	if err != nil {
		return err
	}
	for _, action := range plan.Before {
		if action.Do != hostchange.Stop {
			continue
		}
		if err := a.order(ctx, action); err != nil && host.ExitCode(err) != notLoaded {
			return err
		}
	}
	if !a.journal.Back && plan.Surroundings() {
		if err := a.SurroundingUnits(ctx); err != nil {
			return fmt.Errorf("write the units that read the site's proxy and authorities: %w", err)
		}
	}
	if !a.journal.Back {
		if err := a.keepParameters(ctx); err != nil {
			return fmt.Errorf("keep the kernel parameters: %w", err)
		}
	}
	return a.Configure(ctx, s.Config)
}

// notLoaded is the exit code of systemctl for a unit that does not exist: it does
// not run either.
const notLoaded = 5

// act does what the changes need, beside a reboot. On the way back one failure keeps nobody else
// from being told: the host boots for it, which may have to wait. Where one order has no end, the
// others may have none either, and nobody waits for each.
func (a *Agent) act(ctx context.Context) error {
	plan, err := a.present(ctx)
	if err != nil {
		return err
	}
	var failed []error
	if plan.Parameters() {
		failed = append(failed, a.restoreParameters())
	}
	for _, action := range plan.After {
		if action.Do == hostchange.Reboot {
			continue
		}
		err := a.tellUnit(ctx, action)
		if err != nil && !a.journal.Back {
			return err
		}
		if failed = append(failed, err); errors.Is(err, errNoEnd) {
			break
		}
	}
	return errors.Join(failed...)
}

// tellUnit gives systemd one order, and returns why it failed; nil if it was not needed.
func (a *Agent) tellUnit(ctx context.Context, action hostchange.Action) error {
	err := a.order(ctx, action)
	if err == nil || host.ExitCode(err) == notLoaded && a.passes(ctx, action) {
		return nil
	}
	return a.masked(ctx, action, err)
}

// masked returns why an order failed; nil if it was not needed. For a unit that is masked systemd takes
// no order but to stop it, and also refuses one that is for a unit that runs if this one does not.
func (a *Agent) masked(ctx context.Context, action hostchange.Action, failed error) error {
	if action.Unit == "" || a.property(ctx, "LoadState", action.Unit) != "masked" {
		return failed
	}
	if a.passes(ctx, action) && !a.runs(ctx, action.Unit) {
		return nil
	}
	return fmt.Errorf("%s is masked on this host; unmask it (systemctl unmask %s), or take what needs it out of the configuration: %w", action.Unit, action.Unit, failed)
}

// passes reports whether an order may fail for a unit that the host does not have, or has
// masked: it is for a unit that runs. On the way back what does not run needs no order at all.
func (a *Agent) passes(ctx context.Context, action hostchange.Action) bool {
	return action.Do == hostchange.TryRestart || action.Do == hostchange.TryReload || a.journal.Back && action.Unit != "" && !a.runs(ctx, action.Unit)
}

// runs reports whether a unit is not known to be at rest.
func (a *Agent) runs(ctx context.Context, unit string) bool {
	return !slices.Contains([]string{"inactive", "failed"}, a.property(ctx, "ActiveState", unit))
}

// property returns what systemd says of a unit; empty if it does not say it.
func (a *Agent) property(ctx context.Context, name, unit string) string {
	out, err := a.Systemctl(ctx, "show", "--property="+name, "--value", "--", unit)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// present returns the step that the host is on.
func (a *Agent) present(ctx context.Context) (hostchange.Plan, error) {
	if a.journal.Back {
		return a.plan(ctx, a.journal.Target, a.journal.Good)
	}
	return a.plan(ctx, a.journal.Good, a.journal.Target)
}

// orderTime bounds an order to systemd: a unit may take its time to stop and start.
const orderTime = 5 * time.Minute

var errNoEnd = fmt.Errorf("no end after %s", orderTime)

// order gives systemd one order.
func (a *Agent) order(ctx context.Context, action hostchange.Action) error {
	limited, cancel := context.WithTimeoutCause(ctx, orderTime, errNoEnd)
	defer cancel()
	args := []string{string(action.Do)}
	if action.Unit != "" {
		args = append(args, "--", action.Unit)
	}
	_, err := a.Systemctl(limited, args...)
	return err
}
