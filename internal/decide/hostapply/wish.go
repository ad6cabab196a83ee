package hostapply

import (
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// wished boots a host at rest as somebody wants it. It needs no journal: what it
// does follows from the present boot and the one that the wish names. There is no
// way back from a boot, so that it waits for the host for as long as that takes.
func wished(atRest Step, f Facts) Step {
	step := atRest.works(f)
	switch ready := state.Is(f.Ready, true); {
	case f.Wish == Booted && ready && f.Watched >= Settled:
		return atRest.fulfilled(f)
	case f.Wish == Booted && ready:
		return step(rollout.Applies, Nothing, "has booted as it was wanted, and is watched for "+Settled.String())
	case f.Wish == Booted:
		return step(rollout.Applies, Nothing, because("has booted as it was wanted, and waits until it is ready", f.NotReady))
	}
	return f.whenEmpty(step, func() (Do, string) { return boots(f) })
}

// needed has a host take pods until the cluster carries on without it.
func (f Facts) needed(s Step) Step {
	s.Do, s.Report.Drain, s.Report.Needed, s.Report.Stage = Nothing, false, true, rollout.Held
	s.Report.Reason = because("takes pods until the cluster carries on without it", f.NotSpared)
	return s
}

// works returns a way to make steps of a host that works for a wish.
func (s Step) works(f Facts) func(stage rollout.Stage, do Do, reason string) Step {
	return func(stage rollout.Stage, do Do, reason string) Step {
		return Step{Journal: s.Journal, Do: do, Report: Report{
			State: rollout.Working, Current: s.Journal.Good, Reason: reason, Drain: f.Drains, Stage: stage,
		}}
	}
}

// boots returns whether an empty host boots now. It asks that itself, at the last
// moment.
func boots(f Facts) (Do, string) {
	if !state.Is(f.MayBoot, true) {
		return Nothing, because("waits with its reboot: the cluster may not carry on without it", f.NotSpared)
	}
	if blocked := f.blocked(); blocked != "" {
		return Nothing, "waits with its reboot: " + blocked
	}
	return Reboot, because("boots", f.Failed)
}

// blocked says which programs keep a host from its boot that may boot otherwise; empty if none does.
func (f Facts) blocked() string {
	if !state.Is(f.MayBoot, true) {
		return ""
	}
	return Blocked(f.Locks)
}

// held has an empty host wait with what it was about to do.
func (f Facts) held(s Step) Step {
	s.Report.Stage, s.Report.Blocked = rollout.Held, f.blocked() != ""
	return s
}

// takenBack is why a host goes back that was given another configuration in time.
const takenBack = "another configuration is wanted before its reboot"

const moves = "waits until its pods have moved"
