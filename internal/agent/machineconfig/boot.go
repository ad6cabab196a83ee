package machineconfig

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/model/state"
)

// annotations returns those of this host's node, as the watch has them.
func (a *Agent) annotations() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return about(a.self)
}

// goal returns the configuration that the host is on its way to, or is to begin.
func (a *Agent) goal(desired state.Fact[string]) string {
	if a.journal.Target != "" {
		return a.journal.Target
	}
	return desired.Value
}

// wish returns what the host asks of the operator about its pods. A host at rest
// takes pods again. While a configuration cannot be read the wish stays: the host
// may be about to begin.
func (a *Agent) wish(r hostapply.Report, desired state.Fact[string], missing error) string {
	present := a.annotations()[drain.Desired]
	switch {
	case missing != nil:
		return present
	case r.Drain:
		return drain.Before(a.goal(desired))
	case a.journal.Target == "" && drain.Empties(present):
		return drain.After(a.journal.Good)
	default:
		return present
	}
}

// mayBoot asks whether the cluster carries on while this host boots.
func (a *Agent) mayBoot(ctx context.Context) (state.Fact[bool], string) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return a.cluster.MayBoot(limited)
}

// purpose says for what the host boots.
func (a *Agent) purpose() string {
	if a.journal.Back {
		return fmt.Sprintf("it boots to go back to its configuration %s, because %s", a.journal.Good, bounded(a.journal.Why, maxReason))
	}
	return "it boots for its configuration " + a.journal.Target
}

// bootPause is the pause before systemd is asked once more to boot the host:
// Pacemaker takes its time to stop etcd in order.
const bootPause = 15 * time.Minute

// reboot asks systemd to boot the host, in order. Right before that it asks once
// more whether the cluster carries on: telling the API may have taken seconds.
func (a *Agent) reboot(ctx context.Context) {
	now := a.Now()
	if since := now.Sub(a.booted); !a.booted.IsZero() && since >= 0 && since < bootPause {
		return
	}
	if may, _ := a.mayBoot(ctx); !state.Is(may, true) {
		return // the next step says why
	}
	a.failed = ""
	a.Event(state.PlanEvent(a.purpose()))
	if _, err := a.Systemctl(ctx, "reboot"); err != nil {
		a.failed = err.Error()
		return
	}
	a.booted = now
}
