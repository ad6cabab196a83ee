package hostapply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostAtRestDoesForUpdates(t *testing.T) {
	facts := func(stage updates.Stage, change func(*hostapply.Facts)) hostapply.Facts {
		f := hostapply.Facts{
			Boot: "1", Desired: state.Known("old"), Wish: hostapply.Patch, Drains: true, Drained: true, MayBoot: state.Known(true), Ready: state.Known(true), Watched: hostapply.Settled,
			Updates: hostapply.Updates{Stage: stage},
		}
		if change != nil {
			change(&f)
		}
		return f
	}
	works := func(stage rollout.Stage, reason string) hostapply.Report {
		return hostapply.Report{State: rollout.Working, Current: "old", Reason: reason, Drain: true, Stage: stage}
	}
	over := hostapply.Report{State: rollout.Done, Current: "old", Stage: rollout.Settled, Fulfilled: true}
	boots := func(f *hostapply.Facts) { f.Updates.Boots = true }
	for _, c := range []struct {
		sentence string
		facts    hostapply.Facts
		do       hostapply.Do
		report   hostapply.Report
	}{
		{
			"they are fetched while its pods still run", facts(updates.Nothing, func(f *hostapply.Facts) { f.Drains, f.Drained = false, false }), hostapply.Fetch,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "fetches the updates of its distribution", Stage: rollout.Applies},
		},
		{"the unit does not start", facts(updates.Nothing, func(f *hostapply.Facts) { f.Failed = "no bus" }), hostapply.Fetch, works(rollout.Applies, "fetches the updates of its distribution: no bus")},
		{"the unit runs", facts(updates.Busy, func(f *hostapply.Facts) { f.Updates.What = "installs 2 updates" }), "", works(rollout.Applies, "installs 2 updates")},
		{
			"nobody wants them any more, or another configuration, while packages change",
			facts(updates.Busy, func(f *hostapply.Facts) {
				f.Wish, f.Desired, f.Updates.What = hostapply.NoWish, state.Known("new"), "installs 2 updates"
			}),
			"", works(rollout.Applies, "installs 2 updates"),
		},
		{"pods have to move first", facts(updates.Ready, func(f *hostapply.Facts) { f.Drained = false }), hostapply.Drain, works(rollout.Drains, "waits until its pods have moved")},
		{
			"the cluster needs it", facts(updates.Ready, func(f *hostapply.Facts) { f.MayBoot, f.NotSpared = state.Known(false), "cp-2 is absent" }), "",
			works(rollout.Held, "waits with its updates: the cluster may not carry on without it: cp-2 is absent"),
		},
		{"nobody knows whether the cluster needs it", facts(updates.Ready, func(f *hostapply.Facts) { f.MayBoot = state.Fact[bool]{} }), "", works(rollout.Held, "waits with its updates: the cluster may not carry on without it")},
		{"it is empty, and can be spared", facts(updates.Ready, nil), hostapply.Install, works(rollout.Applies, "installs the updates of its distribution")},
		{
			"it is given another configuration before", facts(updates.Ready, func(f *hostapply.Facts) { f.Desired, f.Drained = state.Known("new"), false }), hostapply.Drain,
			works(rollout.Drains, "waits until its pods have moved"),
		},
		{"they need a boot", facts(updates.Over, boots), hostapply.Reboot, works(rollout.Applies, "boots")},
		{
			"they need a boot, and nothing was installed, so that it is not empty", facts(updates.Over, func(f *hostapply.Facts) { f.Updates.Boots, f.Drained = true, false }), hostapply.Drain,
			works(rollout.Drains, "waits until its pods have moved"),
		},
		{
			"they need a boot, and the cluster needs the host", facts(updates.Over, func(f *hostapply.Facts) { f.Updates.Boots, f.MayBoot = true, state.Known(false) }), "",
			works(rollout.Held, "waits with its reboot: the cluster may not carry on without it"),
		},
		{
			"it is not ready with them", facts(updates.Over, func(f *hostapply.Facts) { f.Ready, f.NotReady = state.Known(false), "kubelet is not healthy" }), "",
			works(rollout.Applies, "has its updates, and waits until it is ready: kubelet is not healthy"),
		},
		{"it has just become ready", facts(updates.Over, func(f *hostapply.Facts) { f.Watched-- }), "", works(rollout.Applies, "has its updates, and is watched for 1m0s")},
		{"it is ready", facts(updates.Over, nil), "", over},
		{"they failed", facts(updates.Broken, nil), "", over},
	} {
		s := hostapply.Next(hostapply.Journal{Good: "old"}, c.facts)
		if diff := cmp.Diff(c.report, s.Report); s.Do != c.do || diff != "" || s.Journal != (hostapply.Journal{Good: "old"}) {
			t.Errorf("%s: does %q, want %q, journal %+v; -want +got\n%s", c.sentence, s.Do, c.do, s.Journal, diff)
		}
	}
}
