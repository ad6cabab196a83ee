package hostapply_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhoKeepsAHostFromItsBootAtLogind(t *testing.T) {
	const ends = "; it boots once nobody blocks them (on the host: systemd-inhibit --list)"
	fwupd := hostapply.Lock{What: "shutdown:sleep", Who: "fwupd", Why: "Firmware update in progress", Mode: "block", Process: 9}
	change := func(change func(*hostapply.Lock)) hostapply.Lock {
		l := fwupd
		change(&l)
		return l
	}
	var many []hostapply.Lock
	for i := range uint32(5) {
		many = append(many, change(func(l *hostapply.Lock) { l.Process = 40 - i }))
	}
	for name, c := range map[string]struct {
		locks []hostapply.Lock
		want  string
	}{
		"nobody":       {nil, ""},
		"somebody":     {[]hostapply.Lock{fwupd}, `shutdowns are blocked at logind by "fwupd" ("Firmware update in progress"), process 9 of root` + ends},
		"another user": {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.User = 1000 })}, `shutdowns are blocked at logind by "fwupd" ("Firmware update in progress"), process 9 of user 1000` + ends},
		"a delay":      {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.Mode = "delay" })}, ""},
		"a lock that root may pass by its own word": {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.Mode = "block-weak" })}, ""},
		"sleep alone":                  {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.What = "sleep:handle-power-key" })}, ""},
		"a name that only contains it": {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.What = "no-shutdown:sleep" })}, ""},
		"beside a delay":               {[]hostapply.Lock{change(func(l *hostapply.Lock) { l.Mode, l.Who = "delay", "unattended-upgrades" }), fwupd}, `shutdowns are blocked at logind by "fwupd" ("Firmware update in progress"), process 9 of root` + ends},
		"words that write on a screen": {
			[]hostapply.Lock{change(func(l *hostapply.Lock) { l.Who, l.Why = "a\x1b[2J\nb", strings.Repeat("long ", 100) })},
			`shutdowns are blocked at logind by "a [2J b" ("` + strings.Repeat("long ", 15) + `l ..."), process 9 of root` + ends,
		},
		"many": {
			many,
			`shutdowns are blocked at logind by "fwupd" ("Firmware update in progress"), process 36 of root, by "fwupd" ("Firmware update in progress"), process 37 of root, ` +
				`by "fwupd" ("Firmware update in progress"), process 38 of root, by 2 more` + ends,
		},
	} {
		if got := hostapply.Blocked(c.locks); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
	said := hostapply.Blocked(many)
	slices.Reverse(many)
	if other := hostapply.Blocked(many); said != other {
		t.Errorf("the order of logind changes what is said: %s, %s", said, other)
	}
}

// TestEachBootWaitsForAProgramThatBlocksShutdowns, also that of a way back and of a host that has yet to join.
// Steps other than boots do not wait.
func TestEachBootWaitsForAProgramThatBlocksShutdowns(t *testing.T) {
	locks := []hostapply.Lock{{What: "shutdown", Who: "apt", Why: "APT is installing or removing packages", Mode: "block", Process: 9}}
	const waits = `waits with its reboot: shutdowns are blocked at logind by "apt" ("APT is installing or removing packages"), process 9 of root; it boots once nobody blocks them (on the host: systemd-inhibit --list)`
	boots := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Boot: "1", Reboots: true}
	back, first := boots, boots
	back.Back, back.Booted, back.Why = true, true, "it was late"
	first.First, first.Good = true, ""
	facts := hostapply.Facts{Now: noon, Boot: "1", Desired: state.Known("new"), Drains: true, Reboots: true, Drained: true, MayBoot: state.Known(true)}
	for name, c := range map[string]struct {
		journal hostapply.Journal
		change  func(*hostapply.Facts)
		free    hostapply.Do
		held    bool
	}{
		"a configuration":      {boots, func(*hostapply.Facts) {}, hostapply.Reboot, true},
		"the way back":         {back, func(*hostapply.Facts) {}, hostapply.Reboot, true},
		"before it has joined": {first, func(f *hostapply.Facts) { f.Drained = false }, hostapply.Reboot, true},
		"a wish":               {hostapply.Journal{Good: "new"}, func(f *hostapply.Facts) { f.Wish = hostapply.Turn }, hostapply.Reboot, true},
		"updates": {
			hostapply.Journal{Good: "new"},
			func(f *hostapply.Facts) {
				f.Wish, f.Updates = hostapply.Patch, hostapply.Updates{Stage: updates.Over, Boots: true}
			}, hostapply.Reboot, true,
		},
		"updates that are to be installed": {
			hostapply.Journal{Good: "new"}, func(f *hostapply.Facts) { f.Wish, f.Updates.Stage = hostapply.Patch, updates.Ready }, hostapply.Install, false,
		},
		"a drain": {boots, func(f *hostapply.Facts) { f.Drained = false }, hostapply.Drain, false},
	} {
		f := facts
		c.change(&f)
		if s := hostapply.Next(c.journal, f); s.Do != c.free || s.Report.Blocked {
			t.Errorf("%s: nobody blocks shutdowns, and it does %q, blocked %v", name, s.Do, s.Report.Blocked)
		}
		f.Locks = locks
		s := hostapply.Next(c.journal, f)
		switch {
		case s.Report.Blocked != c.held:
			t.Errorf("%s: blocked is %v", name, s.Report.Blocked)
		case !c.held && s.Do != c.free:
			t.Errorf("%s: it does %q, want %q", name, s.Do, c.free)
		case c.held && (s.Do != hostapply.Nothing || s.Report.Stage != rollout.Held || !strings.HasSuffix(s.Report.Reason, waits)):
			t.Errorf("%s: it does %q and says %q", name, s.Do, s.Report.Reason)
		}
		if f.MayBoot = state.Known(false); c.held {
			if s := hostapply.Next(c.journal, f); s.Report.Blocked || !strings.Contains(s.Report.Reason, "the cluster may not carry on without it") {
				t.Errorf("%s: the cluster needs it, and it says %q", name, s.Report.Reason)
			}
		}
	}
}
