package machineconfig

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// annotations returns those of this host's node, as the watch has them.
func (a *Agent) annotations() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return about(a.self)
}

// wanted returns what somebody wants of this host.
func (a *Agent) wanted() rollout.Wish { return rollout.WishOf(a.annotations()) }

// goal returns for what the host is to be empty: for the configuration that it is on
// its way to or is to begin, or else for the reboot that somebody wants.
func (a *Agent) goal(desired state.Fact[string]) string {
	switch wish := a.serves; {
	case a.journal.Target != "":
		return a.journal.Target
	case wish.HasTurn() && wish.Patch && !a.journal.Begins(desired):
		return "patch-" + wish.Wanted
	case wish.HasTurn() && !a.journal.Begins(desired):
		return "reboot-" + wish.Wanted
	default:
		return desired.Value
	}
}

// addWish adds how far the reboot is that somebody wants. The configuration goes
// first.
func (a *Agent) addWish(ctx context.Context, f *hostapply.Facts) error {
	switch wish := a.serves; {
	case a.journal.Target != "":
		if wish.Booted(f.Boot) {
			f.Wish = hostapply.Booted
		}
	case a.journal.Begins(f.Desired):
	case wish.Patch:
		return a.addPatch(ctx, f, wish)
	case wish.Booted(f.Boot):
		// It stays empty while it is checked. One that booted for something else was not.
		f.Wish, f.Drains = hostapply.Booted, wish.HasTurn() && a.asked(f.Desired)
		return a.watchFor(ctx, f, wish)
	case wish.HasTurn():
		f.Wish, f.Drains = hostapply.Turn, true
		a.addSpared(ctx, f)
	}
	return nil
}

// asked reports whether the host has asked to be empty for what it is at.
func (a *Agent) asked(desired state.Fact[string]) bool {
	return a.annotations()[drain.Desired] == drain.Before(a.goal(desired))
}

// watchFor adds whether a host is ready that has what somebody wanted of it.
func (a *Agent) watchFor(ctx context.Context, f *hostapply.Facts, wish rollout.Wish) error {
	f.Watched = a.watched(wish.Wanted, f.Now)
	cfg, err := a.good(ctx)
	if err != nil {
		return err
	}
	f.Ready, f.NotReady = a.ready(ctx, cfg, nil)
	return nil
}

// good returns the last good configuration, which is empty on a host that never had
// one.
func (a *Agent) good(ctx context.Context) (Config, error) {
	if a.journal.Good == "" {
		return Config{}, nil
	}
	return a.config(ctx, a.journal.Good)
}

// watched returns for how long this process has known that the host booted for a
// wish.
func (a *Agent) watched(wish string, now time.Time) time.Duration {
	if a.watch.wish != wish || now.Before(a.watch.since) {
		a.watch.wish, a.watch.since = wish, now
	}
	return now.Sub(a.watch.since)
}

// aboutWish returns what the host says about what somebody wants of it: in which boot
// it heard of that, and the last that was carried out. A host that was away notes the
// boot in which it came back, because it does not know what it missed. Another wish that was
// written in place of the one that this step is about was not carried out.
func (a *Agent) aboutWish(r hostapply.Report, f hostapply.Facts) map[string]string {
	have, first, out := a.annotations(), a.serves, map[string]string{}
	fulfilled := false
	for _, w := range rollout.WishesOf(have) {
		names := w.Names()
		if done := have[names.Done]; done != "" {
			out[names.Done] = done
		}
		switch {
		case r.Fulfilled && w.Patch == first.Patch && w.Wanted == first.Wanted:
			out[names.Done], fulfilled = w.Wanted, true
		case w.Open():
			out[names.From] = rollout.About(w.Wanted, cmp.Or(w.From, f.Boot))
		}
	}
	switch result := have[rollout.PatchResult]; {
	case fulfilled && first.Patch:
		out[rollout.PatchResult] = rollout.About(first.Wanted, bounded(a.result(f.Updates)))
	case result != "":
		out[rollout.PatchResult] = result
	}
	return out
}

// wish returns what the host asks of the operator about its pods. A host at rest
// takes pods again, and so does one that a person is to boot, and one whose shutdown was
// cancelled. While a configuration cannot be read the wish stays: the host may be about to begin.
func (a *Agent) wish(ctx context.Context, r hostapply.Report, desired state.Fact[string], missing error) string {
	present := a.annotations()[drain.Desired]
	switch {
	case missing != nil, a.patch.busy, drain.OfUpgrade(present), a.shutsDown(ctx, present):
		return present
	case r.Drain:
		return drain.Before(a.goal(desired))
	case (a.journal.Target == "" || r.Needed || r.Stage == rollout.WaitsForBoot || drain.OfShutdown(present)) && drain.Empties(present):
		return drain.After(a.journal.Good)
	default:
		return present
	}
}

// addSpared adds whether the cluster carries on while this host boots, and whether it has not
// been known to for so long that the host takes pods again. It does so until the cluster has
// carried on for a while: a peer that comes and goes is no reason to move all pods each time. A
// host that shuts down takes none. Where the cluster carries on it adds who else may keep the host
// from its boot.
func (a *Agent) addSpared(ctx context.Context, f *hostapply.Facts) {
	if f.MayBoot, f.NotSpared = a.mayBoot(ctx); state.Is(f.MayBoot, true) {
		f.Locks = a.locks(ctx)
	}
	n, after := &a.needed, hostapply.NeededFor
	if n.is {
		after = hostapply.Settled
	}
	switch {
	case state.Is(f.MayBoot, true) != n.is:
		n.turns = time.Time{}
	case n.turns.IsZero() || f.Now.Before(n.turns):
		n.turns = f.Now
	case f.Now.Sub(n.turns) >= after:
		n.is, n.turns = !n.is, time.Time{}
	}
	f.Needed = n.is && !a.stopping(ctx)
}

// mayBoot asks whether the cluster carries on while this host boots. Before the host
// has joined, the cluster does without it anyway. On the way back it is enough that the
// host carries nothing: a configuration that cut it off the network lets it see nobody
// who carries on, and the boot is what ends that. So it is after a way back that did not end.
func (a *Agent) mayBoot(ctx context.Context) (state.Fact[bool], string) {
	if a.journal.First && !a.Joined() {
		return state.Known(true), ""
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	carries, why := a.cluster.MayBoot(limited)
	if (a.journal.Back || a.journal.Unfinished != "") && !state.Is(carries, true) && a.cluster.Idle(limited) {
		return state.Known(true), ""
	}
	return carries, why
}

// bootPause is the pause before systemd is asked once more to boot the host:
// Pacemaker takes its time to stop etcd in order.
const bootPause = 15 * time.Minute

// reboot asks systemd to boot the host, in order, once its virtual IPs are at another
// host and its API server takes no more requests. A host that shuts down already is let
// go on.
func (a *Agent) reboot(ctx context.Context) {
	now := a.Now()
	if since := now.Sub(a.booted); !a.booted.IsZero() && since >= 0 && since < bootPause {
		return
	}
	a.out.mu.Lock()
	defer a.out.mu.Unlock()
	if down, err := a.goesDown(ctx); a.out.stay != nil || err == nil && down {
		return
	}
	if why := a.depart(ctx, a.mayBootNow); why != "" {
		return // the next step says why
	}
	if err := a.orderAtBoot(); err != nil {
		a.remain()
		a.failed = err.Error()
		return
	}
	a.failed = ""
	a.Event(state.PlanEvent(a.purpose().boots()))
	if _, err := a.Systemctl(ctx, "reboot"); err != nil {
		a.remain()
		a.failed = err.Error()
		return
	}
	a.booted, a.out.due = now, a.Now().Add(shutdownBegins)
}
