package hostchange

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// withUnits is a configuration of these units.
func withUnits(list ...types.Unit) machineconfig.Config {
	var c machineconfig.Config
	c.Ignition.Systemd.Units = list
	return c
}

// unitStates are all states of a unit in a configuration: absent, and each of its
// fields not set or set to each value.
func unitStates() []*types.Unit {
	out := []*types.Unit{nil}
	for _, enabled := range []*bool{nil, new(true), new(false)} {
		for _, mask := range []*bool{nil, new(true), new(false)} {
			for _, contents := range []*string{nil, new("[Service]\nA=1"), new("[Service]\nA=2")} {
				out = append(out, &types.Unit{Name: "a.service", Enabled: enabled, Mask: mask, Contents: contents})
			}
		}
	}
	return out
}

func shown(u *types.Unit) string {
	if u == nil {
		return "absent"
	}
	text := func(b *bool) string {
		if b == nil {
			return "unset"
		}
		return fmt.Sprint(*b)
	}
	contents := "unset"
	if u.Contents != nil {
		contents = *u.Contents
	}
	return fmt.Sprintf("enabled %s, mask %s, contents %q", text(u.Enabled), text(u.Mask), contents)
}

// TestWhatEachStepOfAUnitNeeds plays all steps from one state of a unit to another:
// afterwards the host is as if it had booted with the new one.
func TestWhatEachStepOfAUnitNeeds(t *testing.T) {
	table, seen := Table(nil), map[string]int{}
	for _, was := range unitStates() {
		for _, now := range unitStates() {
			var from, to machineconfig.Config
			if was != nil {
				from = withUnits(*was)
			}
			if now != nil {
				to = withUnits(*now)
			}
			p := Compare(from, to, table)
			does := func(do Do) bool { return slices.Contains(slices.Concat(p.Before, p.After), Action{do, "a.service"}) }
			kind := wanted(was, now)
			seen[kind]++
			holds := map[string]bool{
				"nothing":     p.Quiet() && len(p.Changes) == 0,
				"reboot":      p.Reboots() && p.Drains() && len(p.Before)+len(p.After) == 2,
				"stop":        slices.Equal(p.Before, []Action{{Stop, "a.service"}}) && slices.Equal(p.After, []Action{{Do: DaemonReload}}),
				"restart":     len(p.Before) == 0 && slices.Equal(p.After, []Action{{Do: DaemonReload}, {Restart, "a.service"}}),
				"try-restart": len(p.Before) == 0 && slices.Equal(p.After, []Action{{Do: DaemonReload}, {TryRestart, "a.service"}}),
			}[kind]
			if !holds || kind == "stop" && (does(Restart) || does(TryRestart)) {
				t.Errorf("from %s to %s, want %s: before %v, after %v", shown(was), shown(now), kind, p.Before, p.After)
			}
		}
	}
	for _, kind := range []string{"nothing", "reboot", "stop", "restart", "try-restart"} {
		if seen[kind] == 0 {
			t.Errorf("no step needs %s", kind)
		}
	}
}

// wanted says in plain words what a step of a unit needs.
func wanted(was, now *types.Unit) string {
	if shown(was) == shown(now) {
		return "nothing"
	}
	unset := func(before, after bool) bool { return before && !after }
	if was != nil && (now != nil || was.Contents == nil) {
		after := types.Unit{}
		if now != nil {
			after = *now
		}
		// A setting was taken away: only a boot shows what the host makes of it.
		if unset(was.Enabled != nil, after.Enabled != nil) || unset(was.Mask != nil, after.Mask != nil) || unset(was.Contents != nil, after.Contents != nil) {
			return "reboot"
		}
	}
	switch {
	case now == nil && was.Contents != nil:
		return "stop" // a host that boots does not have it
	case now == nil:
		return "try-restart" // it was named, and nothing was set
	case now.Mask != nil && *now.Mask, now.Enabled != nil && !*now.Enabled:
		return "stop" // a host that boots does not start it
	case now.Enabled != nil:
		return "restart" // a host that boots starts it
	}
	return "try-restart" // others decide whether it runs
}

// TestWhatCarriesTheClusterIsNeverTouchedOnAHostThatIsNotEmpty: whatever changes of it,
// and whatever the site declares.
func TestWhatCarriesTheClusterIsNeverTouchedOnAHostThatIsNotEmpty(t *testing.T) {
	site := []Row{{Rule: "site.all", fits: always}}
	for _, name := range append([]string{"kubelet.service", "containerd.service", "corosync.service", "pacemaker.service", "holdfast-agent.service"}, carrying...) {
		for _, now := range []types.Unit{
			{Name: name, Enabled: new(true)},
			{Name: name, Mask: new(true)},
			{Name: name, Contents: new("[Service]")},
			{Name: name, Dropins: []types.Dropin{{Name: "a.conf", Contents: new("[Service]")}}},
		} {
			for _, step := range [][2]machineconfig.Config{{withUnits(), withUnits(now)}, {withUnits(now), withUnits()}} {
				if p := Compare(step[0], step[1], Table(site)); !p.Reboots() || p.Changes[0].Rule != "unit.carries" {
					t.Errorf("%s: %+v", name, p.Changes)
				}
			}
		}
	}
	if p := Compare(withUnits(), withUnits(types.Unit{Name: "a.mount", Enabled: new(true)}), Table(site)); !p.Quiet() {
		t.Errorf("all others are the site's to declare: %+v", p)
	}
}

// TestWhichFilesARowIsAbout: a folder is what is below it, a file is itself alone.
func TestWhichFilesARowIsAbout(t *testing.T) {
	rule := func(path string) string { return find(Table(nil), Change{Kind: File, Name: path}).Rule }
	for path, want := range map[string]string{
		"/etc/sysctl.d/a.conf": "file.sysctl", "/etc/sysctl.d/b/a.conf": "file.sysctl", "/etc/sysctl.conf": "other", "/etc/sysctl.d": "other",
		"/etc/modules-load.d/a.conf": "file.modules", "/etc/modules": "other",
		"/etc/containerd/certs.d/r.example/hosts.toml": "file.registries", "/etc/containerd/config.toml": "other",
		"/etc/holdfast/firewall": "file.firewall", "/etc/holdfast/firewall.d": "other",
		"/etc/systemd/journald.conf": "file.journal", "/etc/systemd/journald.conf.d/a.conf": "file.journal", "/etc/systemd/journald.conf.bak": "other", "/etc/systemd/system.conf": "other",
		"/etc/chrony.conf": "file.chrony", "/etc/chrony/chrony.conf": "file.chrony", "/etc/chrony.d/a.conf": "file.chrony", "/etc/chronyd": "other",
		"/etc/systemd/timesyncd.conf": "file.timesyncd", "/etc/systemd/timesyncd.conf.d/a.conf": "file.timesyncd",
		"/etc/ssh/sshd_config": "file.sshd", "/etc/ssh/sshd_config.d/a.conf": "file.sshd", "/etc/ssh/ssh_config": "other", "/etc/ssh/sshd_config.d": "other",
		"/etc/motd": "file.read-at-use", "/etc/motd.d/a": "file.read-at-use", "/etc/motd/a": "other", "/etc/issue": "file.read-at-use", "/etc/issue.net": "other",
		"/etc/sudoers.d/a": "file.read-at-use", "/etc/sudoers": "other", "/etc/cron.d/a": "file.read-at-use", "/etc/crontab": "other", "/": "other",
	} {
		if got := rule(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestWhatTheKernelKeepsNeedsABoot: a parameter or a module that is no longer named.
func TestWhatTheKernelKeepsNeedsABoot(t *testing.T) {
	for _, c := range []struct {
		path, before, after string
		reboots             bool
	}{
		{"/etc/sysctl.d/a.conf", "", "a.b=1", false},
		{"/etc/sysctl.d/a.conf", "a.b=1\nc.d=1", "c.d=9\n# more\na.b=2\ne.f=1", false},
		{"/etc/sysctl.d/a.conf", "a.b=1\nc.d=1", "a.b=1", true},
		{"/etc/sysctl.d/a.conf", "a.b=1", "", true},
		{"/etc/sysctl.d/a.conf", "# a.b=1", "", false},
		{"/etc/modules-load.d/a.conf", "", "sctp", false},
		{"/etc/modules-load.d/a.conf", "# ours\n; theirs\n sctp \n\n", "dummy\nsctp", false},
		{"/etc/modules-load.d/a.conf", "sctp\ndummy", "sctp", true},
		{"/etc/modules-load.d/a.conf", "sctp", "# sctp", true},
	} {
		row := find(Table(nil), Change{Kind: File, Name: c.path, before: []byte(c.before), after: []byte(c.after)})
		if reboots := slices.Contains(row.Needs, Action{Do: Reboot}); reboots != c.reboots || reboots != (row.Rule == "file.dropped") {
			t.Errorf("%s from %q to %q: %s", c.path, c.before, c.after, row.Rule)
		}
	}
}

// TestTheOrderOfActions shuffles all actions that there are: each is done once, in the
// order in which a host does them, and a reboot takes the place of all.
func TestTheOrderOfActions(t *testing.T) {
	all := []Action{{Do: Drain}, {Stop, "a"}, {Stop, "b"}, {Do: DaemonReload}, {TryReload, "a"}, {TryRestart, "a"}, {Restart, "a"}, {Restart, "b"}}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		mixed := slices.Concat(all, all)
		random.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
		before, after := sequence(slices.Clone(mixed))
		if !slices.Equal(before, all[:3]) || !slices.Equal(after, all[3:]) {
			t.Fatalf("before %v, after %v", before, after)
		}
		before, after = sequence(append(mixed, Action{Do: Reboot}))
		if !slices.Equal(before, []Action{{Do: Drain}}) || !slices.Equal(after, []Action{{Do: Reboot}}) {
			t.Fatalf("with a reboot: before %v, after %v", before, after)
		}
	}
	for _, c := range []struct{ all, before, after []Action }{{nil, nil, nil}, {all[:1], all[:1], nil}, {all[3:4], nil, all[3:4]}} {
		if before, after := sequence(slices.Clone(c.all)); len(before) != len(c.before) || len(after) != len(c.after) {
			t.Errorf("%v: before %v, after %v", c.all, before, after)
		}
	}
	if got := (Action{Stop, "a"}).String() + "|" + (Action{Do: Drain}).String(); got != "stop a|drain" {
		t.Error(got)
	}
}

// TestEachRowTellsPeopleWhatItIsAndWhy, and has a name of its own.
func TestEachRowTellsPeopleWhatItIsAndWhy(t *testing.T) {
	names := map[string]bool{}
	for _, row := range Table(nil) {
		if row.Rule == "" || row.What == "" || row.Why == "" || names[row.Rule] || row.fits == nil || strings.HasSuffix(row.Why, ".") {
			t.Errorf("%+v", row)
		}
		names[row.Rule] = true
	}
	if last := Table(nil)[len(names)-1]; !last.fits(Change{}) || !last.fits(Change{Kind: "of a later release"}) {
		t.Error("the last row does not fit everything")
	}
}
