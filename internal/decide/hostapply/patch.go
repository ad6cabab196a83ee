package hostapply

import (
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Updates is how far a host is with the updates that somebody wants of it.
type Updates struct {
	Stage updates.Stage
	// What says what the host does for it, or why it failed.
	What string
	// Boots is true while a boot is still to come: the distribution wants one, whoever
	// wants the updates does not forbid it, and the host has not booted since.
	Boots bool
}

// patched has a host at rest get updates. Packages are fetched while its pods still
// run, so that what cannot be fetched costs nothing. They change once it is empty and
// the cluster carries on without it: what a package does to a host is not known before.
// Like a reboot it needs no journal, because the unit that installs has a record.
func patched(atRest Step, f Facts) Step {
	step, ready := atRest.works(f), state.Is(f.Ready, true)
	switch u := f.Updates; u.Stage {
	case updates.Busy:
		return step(rollout.Applies, Nothing, u.What)
	case updates.Broken:
		atRest.Report.Fulfilled = true
		return atRest
	case updates.Nothing:
		return step(rollout.Applies, Fetch, because("fetches the updates of its distribution", f.Failed))
	case updates.Ready:
		return f.whenEmpty(step, func() (Do, string) { return installs(f) })
	case updates.Over:
		if u.Boots {
			return f.whenEmpty(step, func() (Do, string) { return boots(f) })
		}
	}
	switch {
	case ready && f.Watched >= Settled:
		return atRest.fulfilled(f)
	case ready:
		return step(rollout.Applies, Nothing, "has its updates, and is watched for "+Settled.String())
	default:
		return step(rollout.Applies, Nothing, because("has its updates, and waits until it is ready", f.NotReady))
	}
}

// whenEmpty returns a step that the host takes once it is empty.
func (f Facts) whenEmpty(step func(rollout.Stage, Do, string) Step, next func() (Do, string)) Step {
	switch {
	case f.Needed:
		return f.needed(step(rollout.Held, Nothing, ""))
	case !f.Drained:
		return step(rollout.Drains, Drain, moves)
	}
	do, reason := next()
	if do == Nothing {
		return f.held(step(rollout.Held, do, reason))
	}
	return step(rollout.Applies, do, reason)
}

// installs returns whether an empty host installs its updates now.
func installs(f Facts) (Do, string) {
	if !state.Is(f.MayBoot, true) {
		return Nothing, because("waits with its updates: the cluster may not carry on without it", f.NotSpared)
	}
	return Install, because("installs the updates of its distribution", f.Failed)
}
