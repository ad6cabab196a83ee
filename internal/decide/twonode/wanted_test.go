package twonode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// settings lists all settings of a configuration, each under its path.
func settings(c Config) map[string]Setting {
	out := map[string]Setting{}
	add := func(path string, list []Setting) {
		for _, s := range list {
			out[path+s.Name] = s
		}
	}
	add("link.", c.Corosync.Link)
	add("crypto.", c.Corosync.Crypto)
	add("totem.", c.Corosync.Totem)
	add("", c.Properties)
	for _, r := range c.Resources {
		add(r.ID+".", r.Parameters)
		add(r.ID+".", r.Meta)
		for _, op := range r.Operations {
			add(r.ID+"."+op.Name+".", op.Settings)
		}
		if r.Clone != nil {
			add(r.Clone.ID+".", r.Clone.Meta)
		}
	}
	return out
}

// docs/adr/0012-pacemaker-settings.md explains this table.
func TestEverySettingIsTheApprovedOneAndHasAReason(t *testing.T) {
	all := settings(Wanted(site()))
	var lines []string
	for path, s := range all {
		if s.Why == "" {
			t.Errorf("%s has no reason", path)
		}
		lines = append(lines, fmt.Sprintf("%-36s %-12s %s\n", path, s.Value, s.Why))
	}
	slices.Sort(lines)
	for _, c := range Wanted(site()).Constraints {
		lines = append(lines, fmt.Sprintf("%s %s: %s\n", c.Kind, c.ID, c.Why))
		if c.Why == "" {
			t.Errorf("%s has no reason", c.ID)
		}
	}
	golden.Check(t, "settings.txt", []byte(strings.Join(lines, "")))
}

func duration(t *testing.T, path string) time.Duration {
	t.Helper()
	v := settings(Wanted(site()))[path].Value
	if n, err := strconv.Atoi(v); err == nil {
		if strings.HasPrefix(path, "totem.") || strings.HasPrefix(path, "link.") {
			return time.Duration(n) * time.Millisecond
		}
		return time.Duration(n) * time.Second
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

// corosync.conf(5): with two nodes, a consensus is safe if it is larger than the
// join timeout, which is 50 ms, and smaller than the token.
func TestALostHostIsNoticedWithinTwoSeconds(t *testing.T) {
	token, consensus := duration(t, "totem.token"), duration(t, "totem.consensus")
	if consensus <= 50*time.Millisecond || consensus >= token {
		t.Errorf("consensus %s, token %s", consensus, token)
	}
	if token+consensus > 2*time.Second || token < time.Second {
		t.Errorf("a lost host is noticed after %s, a silence of %s is a suspicion", token+consensus, token)
	}
	if timeout := duration(t, "link.ping_timeout"); timeout < 2*(token+consensus) {
		t.Errorf("knet takes the link down after %s, before the membership could say that the peer is lost", timeout)
	}
}

// The fence agent waits for its delay, cuts the power and switches it on again,
// with the slowest BMC that it tolerates.
func TestAFenceWithItsDelayEndsBeforePacemakerGivesUp(t *testing.T) {
	for _, n := range []string{"cp-1", "cp-2"} {
		longest := fencing.Longest(duration(t, DeviceOf(n)+".power_timeout"))
		for _, limit := range []string{"stonith-timeout", DeviceOf(n) + ".pcmk_reboot_timeout", DeviceOf(n) + ".pcmk_off_timeout"} {
			if got := duration(t, limit); got <= longest {
				t.Errorf("%s is %s, a fence may take %s", limit, got, longest)
			}
		}
		if got := duration(t, DeviceOf(n)+".pcmk_monitor_timeout"); got <= 2*fencing.LongestAnswer {
			t.Errorf("a monitor ends after %s, a BMC may take %s for each of two answers", got, fencing.LongestAnswer)
		}
	}
}

func TestADeviceNeverRunsOnItsOwnTarget(t *testing.T) {
	for _, n := range []string{"cp-1", "cp-2"} {
		if !slices.ContainsFunc(Wanted(site()).Constraints, func(c Constraint) bool {
			rsc, _ := value(c.Settings, "rsc")
			node, _ := value(c.Settings, "node")
			score, _ := value(c.Settings, "score")
			return c.Kind == Location && rsc == DeviceOf(n) && node == n && score == "-INFINITY"
		}) {
			t.Errorf("%s may run on %s", DeviceOf(n), n)
		}
	}
}

// Tried with crm_simulate in the lab: with kind=Mandatory or score=INFINITY, a
// kubelet that Pacemaker gave up takes the etcd of its node with it.
func TestAFailedKubeletDoesNotStopAHealthyEtcd(t *testing.T) {
	kind, _ := value(order().Settings, "kind")
	score, _ := value(colocation().Settings, "score")
	if kind != "Optional" || score == "INFINITY" {
		t.Errorf("kind %s, score %s", kind, score)
	}
}

func TestNoSecretStandsInTheConfiguration(t *testing.T) {
	in := site()
	in.Fencing = devices()
	cmds, err := Steps(Config{}, Wanted(in))
	if err != nil {
		t.Fatal(err)
	}
	more, err := CorosyncSteps(Corosync{}, Wanted(in).Corosync)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{in.Token, in.Fencing[0].Password, in.Fencing[0].Username, in.Fencing[0].Address} {
		if strings.Contains(show(append(cmds, more...)), secret) {
			t.Errorf("%q is an argument of pcs", secret)
		}
	}
}

func TestAddressesOfTheSecondFamilyAreGivenToo(t *testing.T) {
	in := site()
	in.Nodes = []Node{{"cp-2", "fd98::12"}, {"cp-1", "fd98::11"}}
	if err := in.Validate(Setup); err != nil {
		t.Fatal(err)
	}
	cmds, err := CorosyncSteps(Corosync{}, Wanted(in).Corosync)
	if err != nil || !strings.Contains(show(cmds), "cp-1 addr=fd98::11 cp-2 addr=fd98::12") {
		t.Errorf("%v %s", err, show(cmds))
	}
	if got := settings(Wanted(in))["etcd.node_ip_map"].Value; got != "cp-1:fd98::11;cp-2:fd98::12" {
		t.Error(got)
	}
}
