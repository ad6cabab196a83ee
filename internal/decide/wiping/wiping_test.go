package wiping

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestAHostIsWipedOnlyOnceItsClusterDoesNotCountOnIt(t *testing.T) {
	var text strings.Builder
	for _, c := range []struct {
		sentence string
		facts    Facts
		shut     string
	}{
		{"a host of no site", Facts{}, ""},
		{"a worker that was removed", Facts{Site: true, Node: state.Known(Gone)}, ""},
		{"a worker that is Ready", Facts{Site: true, Node: state.Known(Ready)}, "node"},
		{"a worker that is not Ready, and may be again", Facts{Site: true, Node: state.Known(NotReady)}, "node"},
		{"a worker whose cluster does not answer", Facts{Site: true, Why: "connection refused"}, "unknown"},
		{"the same, and a person says that it was removed", Facts{Site: true, Removed: true}, ""},
		{"a worker that is Ready, whatever a person says", Facts{Site: true, Node: state.Known(Ready), Removed: true}, "node"},
		{"a control plane with data", Facts{Site: true, ControlPlane: true, Data: true, Node: state.Known(Gone)}, "voter"},
		{"a control plane with data, and a person says that it was removed", Facts{Site: true, ControlPlane: true, Data: true, Removed: true}, "voter"},
		{"a control plane that was replaced, whose name another host has", Facts{Site: true, ControlPlane: true, Data: true, Node: state.Known(Ready), Retired: "taken out"}, ""},
		{"a cluster that is given up", Facts{Site: true, ControlPlane: true, Data: true, Node: state.Known(Ready), GiveUp: true}, ""},
		{"a wipe that has begun", Facts{Site: true, ControlPlane: true, Data: true, Begun: true}, ""},
	} {
		c.facts.Host = "w-1"
		var names []string
		text.WriteString("# " + c.sentence + "\n")
		for _, g := range Gates(c.facts) {
			names = append(names, g.Name)
			text.WriteString(g.String() + "\n")
		}
		if got := strings.Join(names, " "); got != c.shut {
			t.Errorf("%s: shut is %q, want %q", c.sentence, got, c.shut)
		}
	}
	golden.Check(t, "gates.txt", []byte(text.String()))
}

func TestAWipeIsAllowedForTheLifeOfItsHostAlone(t *testing.T) {
	was := Life{Cluster: "a"}
	for name, c := range map[string]struct {
		now  *Life
		want bool
	}{
		"its site.json is still there": {&Life{Cluster: "a"}, true},
		"it has deleted site.json":     {nil, true},
		"another site":                 {&Life{Cluster: "b"}, false},
		"the same site, restored":      {&Life{Cluster: "a", Life: "2"}, false},
	} {
		if got := Continues(was, c.now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if Continues(Life{}, &Life{Cluster: "a"}) {
		t.Error("a journal of an earlier build allows it for every site")
	}
}

func TestAPermissionToWipeLapsesWhenALaterBootStartsTheAgent(t *testing.T) {
	for _, c := range []struct {
		allowed, now string
		want         bool
	}{
		{"boot-1", "boot-1", false}, // a wipe may run right now
		{"boot-1", "boot-2", true},
		{"", "boot-2", true}, // an earlier release wrote it
		{"boot-1", "", false},
		{"", "", false},
	} {
		if got := Lapses(c.allowed, c.now); got != c.want {
			t.Errorf("allowed in %q, now %q: %t", c.allowed, c.now, got)
		}
	}
}

func TestNothingIsDeletedThroughAMount(t *testing.T) {
	i := All()
	mounts := []string{"/", "/var/lib/etcd", "/var/lib/holdfast/backups/nfs", "/var/lib/kubelet/pods/x/volumes/y", "/mnt/data", "/run/netns/cni-1", "/etc/kubernetes/secret"}
	if got, want := i.InTheWay(mounts), []string{"/etc/kubernetes/secret", "/var/lib/holdfast/backups/nfs", "/var/lib/kubelet/pods/x/volumes/y"}; !slices.Equal(got, want) {
		t.Errorf("in the way: %q", got)
	}
	for mount, of := range map[string]bool{"/var/lib/kubelet/pods/x/volumes/y": true, "/var/lib/kubelet": false, "/run/netns/cni-1": true, "/var/lib/kubelet2/x": false, "/mnt/data": false} {
		if i.OfPods(mount) != of {
			t.Errorf("%s is of pods: %t", mount, !of)
		}
	}
}

func TestWhatAPersonWroteAndWhatTheNextInstallationNeedsStays(t *testing.T) {
	for _, p := range []string{
		"/etc/holdfast/firewall", "/usr/lib/holdfast/holdfast-agent", "/opt/holdfast/releases/1", "/usr/share/holdfast/release/index.json", "/etc/sudoers.d/90-holdfast",
		"/etc/systemd/system/sshd.service", "/etc/systemd/system/pcsd.service.d/local.conf", "/etc/hosts", "/home/core/.ssh/authorized_keys", JournalPath, "/etc", "/var/lib",
	} {
		if All().Covers(p) {
			t.Errorf("%s is deleted", p)
		}
	}
}

func TestADiskIsNamedByANameThatStaysWithIt(t *testing.T) {
	names := []string{"/dev/sda", "/dev/disk/by-id/../../sda", "/dev/disk/by-id/ata-x-part1", "/dev/disk/by-id/ata-x"}
	if got := Disks(names); len(got) != 3 {
		t.Errorf("got %v", got)
	}
	for out, want := range map[string]string{"\n\n": "", "\n/\n": "it is in use at /", "  [SWAP]\n": "it is in use at [SWAP]"} {
		if got := Uses(out); got != want {
			t.Errorf("%q: %q", out, got)
		}
	}
}
