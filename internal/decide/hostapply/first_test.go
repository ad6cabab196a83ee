package hostapply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhenAHostMayJoinWithItsFirstConfiguration: when all is written and told, or it has
// gone back.
func TestWhenAHostMayJoinWithItsFirstConfiguration(t *testing.T) {
	way := func(phase hostapply.Phase) hostapply.Journal {
		return hostapply.Journal{First: true, Target: "new", Phase: phase}
	}
	back := way(hostapply.Booting)
	back.Back, back.Why = true, "a.service does not start"
	for _, c := range []struct {
		j     hostapply.Journal
		waits string
	}{
		{hostapply.Journal{}, "the agent has not begun with this host's first configuration"},
		{way(hostapply.Writing), "the host takes its first configuration new: writing"},
		{way(hostapply.Acting), "the host takes its first configuration new: acting"},
		{way(hostapply.Booting), "the host takes its first configuration new: booting"},
		{back, "the host goes back from its first configuration new, because a.service does not start"},
		{way(hostapply.Checking), ""},
		{hostapply.Journal{Good: "new"}, ""},
		{hostapply.Journal{First: true, Failed: "new", Why: "x"}, ""},
		// An installation that was begun anew on a host that has a configuration.
		{hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing}, ""},
	} {
		if ok, waits := c.j.MayJoin(); ok != (c.waits == "") || waits != c.waits {
			t.Errorf("%+v: %t, %q", c.j, ok, waits)
		}
	}
}

// TestWhatFailedBeforeAHostJoinedIsTriedOnceMoreInItsTurn, and a second failure is told.
func TestWhatFailedBeforeAHostJoinedIsTriedOnceMoreInItsTurn(t *testing.T) {
	f := hostapply.Facts{Now: noon, Boot: "1", Uptime: hostapply.Settled, Desired: state.Known("new"), First: true, Drains: true, Reboots: true}
	s := hostapply.Next(hostapply.Journal{}, f)
	if want := (hostapply.Journal{First: true, Target: "new", Phase: hostapply.Writing, Boot: "1", Reboots: true}); s.Do != hostapply.Write || s.Journal != want || s.Report.Drain {
		t.Fatalf("it begins with %+v", s)
	}
	f.First, f.Desired = false, state.Fact[string]{}
	f.Failed = "no space"
	s = hostapply.Next(s.Journal, f)
	f.Failed, f.Did = "", hostapply.Write
	s = hostapply.Next(s.Journal, f)
	if s.Journal.Phase != hostapply.Checking || !s.Journal.Back {
		t.Fatalf("it goes back without a boot: %+v", s)
	}
	f.Ready, f.Now = state.Known(true), noon.Add(hostapply.Settled)
	s = hostapply.Next(s.Journal, f)
	want := hostapply.Journal{First: true, Failed: "new", Why: "cannot write: no space"}
	if diff := cmp.Diff(hostapply.Step{Journal: want, Report: hostapply.Report{State: rollout.Done, Stage: rollout.Settled}}, s); diff != "" {
		t.Fatal(diff)
	}
	f.Desired, f.Did = state.Known("new"), hostapply.Nothing
	if s = hostapply.Next(want, f); s.Do != hostapply.Drain {
		t.Fatalf("in its turn: %+v", s)
	}
	f.Drained = true
	s = hostapply.Next(s.Journal, f)
	if s.Do != hostapply.Write || s.Journal.First || s.Journal.Failed != "" {
		t.Fatalf("once it is empty: %+v", s)
	}
	f.Refused = "no such user"
	if s = hostapply.Next(want, f); s.Report.State != rollout.Unreconcilable || s.Journal.First || !strings.Contains(s.Report.Reason, "no such user") {
		t.Fatalf("refused in its turn: %+v", s)
	}
}
