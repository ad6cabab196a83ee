package wiping

import (
	"path"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Inventory lists what Holdfast and Kubernetes leave on a host. Anything that is in none of
// its lists stays.
type Inventory struct {
	// Stop are units, in the order in which they are stopped. The slices have the processes of
	// pods.
	Stop []string
	// Units are patterns of files of units, and of the folders of their drop-ins.
	Units []string
	// Emptied are folders below which file systems of pods are mounted. These are detached
	// first, since nothing is deleted through a mount.
	Emptied []string
	// Paths are files, folders and patterns of files that are deleted.
	Paths []string
	// Tables are prefixes of names of nftables tables, Links are names of interfaces.
	Tables, Links []string
	// Stays lists, for people, what is left on purpose.
	Stays []string
}

// JournalPath is the file that says that a wipe has begun. It is deleted last.
const JournalPath = "/var/lib/holdfast-wipe.json"

// All returns the inventory.
func All() Inventory {
	return Inventory{
		Stop: []string{
			"holdfast-parachute.timer", "holdfast-parachute.service", "holdfast-switch.service", "holdfast-raise.service",
			// The agent comes before what only later programs use: a wipe that is broken off before it leaves the host whole.
			"holdfast-agent.service", "holdfast-leave.service", "holdfast-install.service", "holdfast-configure.service", "holdfast-patch.service", "holdfast-fetch.service", "holdfast-bring.service", "holdfast-trust.service",
			"holdfast-backup.service", "holdfast-held.service", "holdfast-life.service",
			"holdfast-pair@equip.service", "holdfast-pair@dress.service", "holdfast-pair@undress.service", "holdfast-pair@strip.service",
			"kubelet.service", "kubepods.slice", "pacemaker.service", "corosync.service", "pcsd.service", "podman-etcd.service", "containerd.service",
		},
		Units: []string{
			"holdfast-*.service", "holdfast-*.timer", "holdfast-*.path", "kubelet.service", "kubelet.service.d", "containerd.service", "containerd.service.d", "podman-etcd.service",
			"*.service.d/10-holdfast.conf", "*.service.d/10-holdfast-life.conf", "*.service.d/10-proxy.conf", "*.service.d/50-holdfast-release.conf", "holdfast-*.service.d",
		},
		Emptied: []string{"/var/lib/kubelet", "/run/containerd", "/var/lib/containerd", "/run/netns"},
		Paths: []string{
			"/etc/kubernetes", "/etc/cni/net.d/10-holdfast.conflist", "/etc/containerd/config.toml", "/etc/containerd/certs.d",
			"/etc/holdfast/apiserver", "/etc/holdfast/coredns", state.FencingDir, "/etc/holdfast/haproxy", "/etc/holdfast/keepalived", "/etc/holdfast/manifests",
			"/etc/holdfast/pacemaker", "/etc/holdfast/registry", "/etc/holdfast/*.json", "/etc/holdfast/*.pem", "/etc/holdfast/*.env", "/etc/holdfast/*.yaml",
			"/etc/holdfast/join.kubeconfig", "/etc/holdfast/join-key", "/etc/holdfast/join-key.past", "/etc/holdfast/kubeadm-patches", deleted.KeptDir,
			// A power cut leaves these of files that were being written: they may hold the same keys.
			"/etc/holdfast/.*.json.*", "/etc/holdfast/.*.pem.*", "/etc/holdfast/.*.env.*", "/etc/holdfast/.*.yaml.*", "/etc/holdfast/.join*.*",
			"/etc/corosync/.corosync.conf.*", "/etc/corosync/.authkey.*",
			"/etc/sysctl.d/90-holdfast.conf", "/etc/modules-load.d/holdfast.conf", "/etc/apt/apt.conf.d/99-holdfast", "/etc/needrestart/conf.d/zz-holdfast.conf",
			"/usr/local/share/ca-certificates/holdfast-site-*.crt", "/etc/pki/ca-trust/source/anchors/holdfast-site-*.crt",
			corosync.Path, "/etc/corosync/authkey", "/var/lib/pacemaker/cib", "/var/lib/corosync", "/var/lib/pcsd",
			"/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/var/lib/cni", "/run/flannel",
			"/var/lib/etcd", "/var/lib/etcd-*", "/var/log/pods", "/var/log/containers", "/var/log/kubernetes", "/run/holdfast", "/var/lib/holdfast",
		},
		Tables: []string{"holdfast_", "kube-proxy", "flannel-"},
		Links:  []string{"cni0", "flannel.1", "flannel-v6.1"},
		Stays: []string{
			"packages of the distribution",
			"the programs of the release: /usr/lib/holdfast, /opt/holdfast and the links to them, and the release that somebody put below /usr/share/holdfast",
			state.FirewallAlsoPath + " and " + deleted.LeavePath + ", which an administrator wrote",
			"accounts, their keys and /etc/sudoers.d/90-holdfast",
			"files that a machine configuration wrote, and kernel arguments",
			"disks, except those that --disk names",
		},
	}
}

// unitDir is where the files of units are.
const unitDir = "/etc/systemd/system"

// Patterns returns the patterns of everything that is deleted.
func (i Inventory) Patterns() []string {
	var out []string
	for _, u := range i.Units {
		out = append(out, unitDir+"/"+u)
	}
	return append(out, i.Paths...)
}

// Covers reports whether a path is deleted: by itself, or with a folder.
func (i Inventory) Covers(file string) bool {
	return slices.ContainsFunc(i.Patterns(), func(pattern string) bool {
		for p := file; p != "/" && p != "."; p = path.Dir(p) {
			if match, err := path.Match(pattern, p); err == nil && match {
				return true
			}
		}
		return false
	})
}

// OfPods reports whether a mounted file system belongs to pods, so that it is detached.
func (i Inventory) OfPods(mount string) bool {
	return slices.ContainsFunc(i.Emptied, func(dir string) bool { return strings.HasPrefix(mount, dir+"/") })
}

// InTheWay returns the mounted file systems through which a deletion would reach other
// data: all that are below a path of the inventory, except those of pods, which are detached
// before.
func (i Inventory) InTheWay(mounts []string) []string {
	var out []string
	for _, m := range mounts {
		if i.Covers(path.Dir(m)) {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
