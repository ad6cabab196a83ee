package hostapply_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	late    = "the host was not ready 10m0s after"
	earlier = "an earlier way back did not end"
)

// TestAnOrderThatFailsOnTheWayBackBootsTheHost: files of the former configuration beside programs
// that run with the new one are neither. It boots once, and only where it may.
func TestAnOrderThatFailsOnTheWayBackBootsTheHost(t *testing.T) {
	j := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Acting, Back: true, Boot: "1", Why: late}
	f := hostapply.Facts{Now: noon, Boot: "1", Uptime: time.Hour, Desired: state.Known("new"), Failed: "a.service does not start"}
	s := hostapply.Next(j, f)
	booting := j
	booting.Phase, booting.Why = hostapply.Booting, late+"; back with old: a.service does not start"
	if diff := cmp.Diff(booting, s.Journal); diff != "" || s.Do != hostapply.Nothing || s.Report.State != rollout.Working || !booting.MustBoot("1") {
		t.Fatalf("does %q, says %+v; -want +got\n%s", s.Do, s.Report, diff)
	}
	f.Failed = ""
	if s = hostapply.Next(booting, f); s.Do != hostapply.Nothing || s.Report.Stage != rollout.Held {
		t.Errorf("nobody knows whether it may boot: %+v", s)
	}
	f.MayBoot = state.Known(true)
	if s = hostapply.Next(booting, f); s.Do != hostapply.Reboot {
		t.Errorf("it may boot: %+v", s)
	}
	f.Boot, f.Ready, f.Uptime = "2", state.Known(true), hostapply.Settled
	checking := hostapply.Next(booting, f).Journal
	f.Now = f.Now.Add(hostapply.Settled)
	s = hostapply.Next(checking, f)
	if want := (hostapply.Journal{Good: "old", Failed: "new", Why: late}); s.Journal != want || s.Report.Reason != late {
		t.Errorf("the boot has undone it: %+v", s)
	}
	f.Now, f.Uptime, f.Ready = f.Now.Add(time.Hour), time.Hour, state.Known(false)
	s = hostapply.Next(checking, f)
	want := hostapply.Journal{Good: "old", Failed: "new", Why: booting.Why + "; " + late, Unfinished: "2"}
	if s.Journal != want || s.Report.State != rollout.Degraded || s.Report.Reason != want.Why || s.Do != hostapply.Nothing {
		t.Errorf("it has not: %+v", s)
	}
}

// unfinished is a host whose way back ended while it was not ready, as this release and the one
// before write it.
var unfinished = []hostapply.Journal{
	{Good: "old", Failed: "new", Why: "it failed; back with old: " + late, Unfinished: "1"},
	{Good: "old", Failed: "new", Why: "it failed; back with old: a.service does not start"},
}

// TestAHostWhoseWayBackDidNotEndIsNotDoneWithoutABoot: whether it is given what it has or something
// else, it is emptied and boots, once.
func TestAHostWhoseWayBackDidNotEndIsNotDoneWithoutABoot(t *testing.T) {
	for _, j := range unfinished {
		for _, desired := range []string{"old", "other"} {
			f := hostapply.Facts{Now: noon, Boot: "1", Uptime: time.Hour, Desired: state.Known(desired), Quiet: true, Ready: state.Known(true)}
			noted := j
			noted.Unfinished = "1"
			if s := hostapply.Next(j, f); s.Do != hostapply.Drain || s.Journal != noted {
				t.Fatalf("%s: it is emptied first: %+v", desired, s)
			}
			f.Drained = true
			s := hostapply.Next(j, f)
			if want := (hostapply.Journal{Good: "old", Target: desired, Phase: hostapply.Writing, Reboots: true, Boot: "1", Unfinished: "1"}); s.Do != hostapply.Write || s.Journal != want {
				t.Fatalf("%s: it begins with %+v", desired, s)
			}
			f.Did = hostapply.Write
			if s = hostapply.Next(s.Journal, f); s.Do != hostapply.Nothing || s.Report.Stage != rollout.Held {
				t.Fatalf("%s: it may not boot: %+v", desired, s)
			}
			f.Did, f.MayBoot = hostapply.Nothing, state.Known(true)
			if s = hostapply.Next(s.Journal, f); s.Do != hostapply.Reboot {
				t.Fatalf("%s: it may boot: %+v", desired, s)
			}
			f.Boot, f.Uptime = "2", time.Second
			s = hostapply.Next(s.Journal, f)
			if f.Now = noon.Add(time.Second); hostapply.Next(s.Journal, f).Journal.Target == "" {
				t.Errorf("%s: it was not watched", desired)
			}
			f.Now, f.Uptime = noon.Add(hostapply.Settled), hostapply.Settled
			if s = hostapply.Next(s.Journal, f); s.Journal != (hostapply.Journal{Good: desired}) || s.Report.State != rollout.Done {
				t.Errorf("%s: in the end %+v", desired, s)
			}
		}
	}
}

// TestAHostThatIsNotReadyWithWhatItHasRests: no second boot follows by itself. One that somebody wants,
// and after which it is ready, ends that.
func TestAHostThatIsNotReadyWithWhatItHasRests(t *testing.T) {
	j := hostapply.Journal{Good: "old", Target: "old", Phase: hostapply.Checking, Reboots: true, Booted: true, Boot: "2", Unfinished: "1", Since: noon}
	f := hostapply.Facts{Now: noon.Add(time.Hour), Boot: "2", Uptime: time.Hour, Desired: state.Known("old"), Ready: state.Known(false), NotReady: "kubelet is not healthy"}
	s := hostapply.Next(j, f)
	rests := hostapply.Journal{Good: "old", Failed: "old", Why: earlier + "; back with old: " + late + ": kubelet is not healthy", Unfinished: "2"}
	if s.Journal != rests || s.Report.State != rollout.Degraded || s.Report.Reason != rests.Why {
		t.Fatalf("it was not ready: %+v", s)
	}
	if s = hostapply.Next(rests, f); s.Journal != rests || s.Do != hostapply.Nothing || s.Report.State != rollout.Degraded {
		t.Errorf("given it still: %+v", s)
	}
	f.Wish, f.Watched, f.Ready = hostapply.Booted, hostapply.Settled, state.Known(true)
	if s = hostapply.Next(rests, f); s.Journal != rests || !s.Report.Fulfilled {
		t.Errorf("the boot of a wish was before: %+v", s)
	}
	f.Boot = "3"
	if s = hostapply.Next(rests, f); s.Journal != (hostapply.Journal{Good: "old"}) || !s.Report.Fulfilled || s.Report.State != rollout.Done {
		t.Errorf("it has booted, and is ready: %+v", s)
	}
	f.Wish, f.Desired, f.Drained = hostapply.NoWish, state.Known("other"), true
	if s = hostapply.Next(rests, f); s.Do != hostapply.Write || s.Journal.Reboots {
		t.Errorf("it has booted, and is given another one: %+v", s)
	}
}

// TestABootOfAWishEndsAWayBackThatAnEarlierReleaseLeft: that one did not note in which boot it ended, so
// the host at rest notes the first one that this release sees.
func TestABootOfAWishEndsAWayBackThatAnEarlierReleaseLeft(t *testing.T) {
	for _, j := range unfinished {
		f := hostapply.Facts{Now: noon, Boot: "1", Uptime: time.Hour, Desired: state.Known("new"), Ready: state.Known(true)}
		s := hostapply.Next(j, f)
		if s.Journal.Unfinished != "1" || s.Do != hostapply.Nothing || s.Report.State != rollout.Degraded || s.Report.Reason != j.Why {
			t.Fatalf("at rest: %+v", s)
		}
		f.Wish, f.Watched = hostapply.Booted, hostapply.Settled
		if again := hostapply.Next(s.Journal, f); again.Journal != s.Journal {
			t.Errorf("the boot of a wish was before: %+v", again)
		}
		f.Boot = "2"
		s = hostapply.Next(s.Journal, f)
		if want := (hostapply.Journal{Good: "old", Failed: "new", Why: "it failed"}); s.Journal != want || !s.Report.Fulfilled || s.Report.Reason != "it failed" {
			t.Errorf("it has booted, and is ready: %+v", s)
		}
	}
}

// TestAWayThatIsTakenBackLeavesAnEarlierOneUnfinished: neither what it is given then nor what it
// refuses makes a host whole that has not booted.
func TestAWayThatIsTakenBackLeavesAnEarlierOneUnfinished(t *testing.T) {
	f := hostapply.Facts{Now: noon, Boot: "1", Uptime: time.Hour, Desired: state.Known("other"), MayBoot: state.Known(true), Drained: true}
	own := hostapply.Journal{Good: "old", Target: "old", Phase: hostapply.Booting, Reboots: true, Boot: "1", Unfinished: "1"}
	s := hostapply.Next(own, f)
	if want := (hostapply.Journal{Good: "old", Unfinished: "1"}); s.Journal != want || s.Report.State != rollout.Degraded || s.Report.Reason != earlier {
		t.Errorf("on the way to what it has: %+v", s)
	}
	to := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Checking, Back: true, Reboots: true, Boot: "1", Unfinished: "1", Since: noon.Add(-hostapply.Settled), Why: "another configuration is wanted before its reboot"}
	f.Desired, f.Ready = state.Known("old"), state.Known(true)
	if s = hostapply.Next(to, f); s.Journal != (hostapply.Journal{Good: "old", Unfinished: "1"}) {
		t.Errorf("on the way to another one: %+v", s)
	}
	to.Why = "no space"
	if s = hostapply.Next(to, f); s.Journal.Unfinished != "1" || !strings.HasPrefix(s.Report.Reason, "no space; back with old: "+earlier) {
		t.Errorf("another one failed before its boot: %+v", s)
	}
	for _, j := range unfinished {
		f.Desired, f.Refused = state.Known("other"), "no such group"
		if s = hostapply.Next(j, f); s.Journal.Unfinished != "1" || s.Report.State != rollout.Unreconcilable {
			t.Errorf("it refuses: %+v", s)
		}
	}
}
