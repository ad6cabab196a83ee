package hostapply_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostAtRestDoesWithAWish(t *testing.T) {
	old, failed := hostapply.Journal{Good: "old"}, hostapply.Journal{Good: "old", Failed: "bad", Why: "it was late"}
	facts := func(wish hostapply.Wish, change func(*hostapply.Facts)) hostapply.Facts {
		f := hostapply.Facts{Boot: "1", Desired: state.Known("old"), Wish: wish, Drains: true, Drained: true, MayBoot: state.Known(true), Ready: state.Known(true), Watched: hostapply.Settled}
		if change != nil {
			change(&f)
		}
		return f
	}
	works := func(stage rollout.Stage, reason string) hostapply.Report {
		return hostapply.Report{State: rollout.Working, Current: "old", Reason: reason, Drain: true, Stage: stage}
	}
	for _, c := range []struct {
		sentence string
		journal  hostapply.Journal
		facts    hostapply.Facts
		do       hostapply.Do
		report   hostapply.Report
	}{
		{"it has no turn", old, facts(hostapply.NoWish, nil), "", hostapply.Report{State: rollout.Done, Current: "old", Stage: rollout.Settled}},
		{"pods have to move first", old, facts(hostapply.Turn, func(f *hostapply.Facts) { f.Drained = false }), hostapply.Drain, works(rollout.Drains, "waits until its pods have moved")},
		{
			"the cluster needs it", old, facts(hostapply.Turn, func(f *hostapply.Facts) { f.MayBoot, f.NotSpared = state.Known(false), "cp-2 is absent" }), "",
			works(rollout.Held, "waits with its reboot: the cluster may not carry on without it: cp-2 is absent"),
		},
		{
			"nobody knows whether the cluster needs it", old, facts(hostapply.Turn, func(f *hostapply.Facts) { f.MayBoot = state.Fact[bool]{} }), "",
			works(rollout.Held, "waits with its reboot: the cluster may not carry on without it"),
		},
		{
			"the cluster has needed it for long", old, facts(hostapply.Turn, func(f *hostapply.Facts) {
				f.MayBoot, f.NotSpared, f.Needed = state.Known(false), "cp-2 is absent", true
			}), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "takes pods until the cluster carries on without it: cp-2 is absent", Needed: true, Stage: rollout.Held},
		},
		{"it may boot", old, facts(hostapply.Turn, nil), hostapply.Reboot, works(rollout.Applies, "boots")},
		{"systemd does not boot it", old, facts(hostapply.Turn, func(f *hostapply.Facts) { f.Failed = "no bus" }), hostapply.Reboot, works(rollout.Applies, "boots: no bus")},
		{"it is given a configuration before that", old, facts(hostapply.Turn, func(f *hostapply.Facts) { f.Desired, f.Drained = state.Known("new"), false }), hostapply.Drain, works(rollout.Drains, "waits until its pods have moved")},
		{
			"it has booted, and kubelet is away", old, facts(hostapply.Booted, func(f *hostapply.Facts) { f.Ready, f.NotReady = state.Known(false), "kubelet is not healthy" }), "",
			works(rollout.Applies, "has booted as it was wanted, and waits until it is ready: kubelet is not healthy"),
		},
		{
			"it has booted, and nobody knows whether it is ready", old, facts(hostapply.Booted, func(f *hostapply.Facts) { f.Ready = state.Fact[bool]{} }), "",
			works(rollout.Applies, "has booted as it was wanted, and waits until it is ready"),
		},
		{"it has just become ready", old, facts(hostapply.Booted, func(f *hostapply.Facts) { f.Watched-- }), "", works(rollout.Applies, "has booted as it was wanted, and is watched for 1m0s")},
		{"it is ready", old, facts(hostapply.Booted, nil), "", hostapply.Report{State: rollout.Done, Current: "old", Fulfilled: true, Stage: rollout.Settled}},
		{"it had failed before", failed, facts(hostapply.Booted, func(f *hostapply.Facts) { f.Desired = state.Known("bad") }), "", hostapply.Report{State: rollout.Degraded, Current: "old", Reason: "it was late", Fulfilled: true, Stage: rollout.Failed}},
		{
			"it has booted for a configuration",
			hostapply.Journal{Good: "older", Target: "old", Phase: hostapply.Checking, Boot: "1", Since: time.Time{}.Add(1)},
			facts(hostapply.Booted, func(f *hostapply.Facts) { f.Now, f.Uptime = time.Time{}.Add(time.Hour), time.Hour }), "",
			hostapply.Report{State: rollout.Done, Current: "old", Fulfilled: true, Stage: rollout.Settled},
		},
	} {
		s := hostapply.Next(c.journal, c.facts)
		if diff := cmp.Diff(c.report, s.Report); s.Do != c.do || diff != "" {
			t.Errorf("%s: does %q, want %q; -want +got\n%s", c.sentence, s.Do, c.do, diff)
		}
		if c.journal.Target == "" && s.Journal != c.journal {
			t.Errorf("%s: a wish needs no journal: %+v", c.sentence, s.Journal)
		}
	}
}

// TestANodeWithoutAWishTakesNoConfigurationBack: a restore of etcd in place takes the wish away, and the
// operator gives it anew. A sound configuration does not count as one that failed.
func TestANodeWithoutAWishTakesNoConfigurationBack(t *testing.T) {
	boots := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Boot: "1", Reboots: true}
	back := boots
	back.Phase, back.Back, back.Why = hostapply.Checking, true, "another configuration is wanted before its reboot"
	for what, j := range map[string]hostapply.Journal{"it waits for its boot": boots, "it was on its way back": back} {
		f := hostapply.Facts{Now: noon, Boot: "1", Uptime: time.Hour, Desired: state.Known(""), Drains: true, Reboots: true, Ready: state.Known(true), Quiet: true, MayBoot: state.Known(false)}
		for look := range 12 {
			if look == 3 {
				f.Desired, f.Drained, f.MayBoot = state.Known("new"), true, state.Known(true)
			}
			s := hostapply.Next(j, f)
			if s.Report.State == rollout.Degraded || s.Journal.Failed != "" {
				t.Fatalf("%s, look %d: %+v", what, look, s)
			}
			j, f.Did = s.Journal, s.Do
			if s.Do == hostapply.Reboot {
				f.Boot, f.Did = "2", hostapply.Nothing
			}
		}
		if want := (hostapply.Journal{Good: "new"}); j != want {
			t.Errorf("%s: it ends with %+v", what, j)
		}
	}
}
