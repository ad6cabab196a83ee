package machineconfig

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// refused returns why a file may not be at a path, empty if it may.
func refused(p string) string {
	var d decoder
	d.place("path", p)
	if len(d.mistakes) == 0 {
		return ""
	}
	return d.mistakes[0].Why
}

// TestEachOwnersPlaceIsRefusedAndWhatLiesBesideIsNot goes through the table: the place
// itself, what lies below a folder, and names that only begin alike.
func TestEachOwnersPlaceIsRefusedAndWhatLiesBesideIsNot(t *testing.T) {
	for _, o := range owners {
		p := strings.TrimSuffix(o.path, "/")
		inside := []string{p}
		if p != o.path {
			inside = append(inside, p+"/a", p+"/a/b.conf", p+"/.a")
		}
		for _, q := range inside {
			if got := refused(q); got != q+" belongs to "+o.who {
				t.Errorf("%s, of %s: %q", q, o.path, got)
			}
		}
		for _, q := range []string{p + "x", p + ".site", path.Dir(p) + "/site-" + path.Base(p)} {
			other := slices.ContainsFunc(owners, func(o owner) bool { return o.owns(q) })
			if got := refused(q); got != "" && !other && !strings.Contains(path.Base(q), marked) {
				t.Errorf("%s lies beside %s: %q", q, o.path, got)
			}
		}
		if p == o.path && refused(p+"/a") != "" {
			t.Errorf("%s is a file, and %s/a is refused: %q", p, p, refused(p+"/a"))
		}
	}
}

// TestNoRowOfTheTableOfOwnersIsIdle: each lies in a folder where files may be, in the
// order of the table, and inside of no other row.
func TestNoRowOfTheTableOfOwnersIsIdle(t *testing.T) {
	if !slices.IsSortedFunc(owners, func(a, b owner) int { return strings.Compare(a.path, b.path) }) {
		t.Error("the table is not in the order of its paths")
	}
	for i, o := range owners {
		if !slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(o.path, root+"/") }) {
			t.Errorf("%s lies outside of %q", o.path, roots)
		}
		for k, other := range owners {
			if i != k && other.owns(strings.TrimSuffix(o.path, "/")) {
				t.Errorf("%s lies inside of %s", o.path, other.path)
			}
		}
	}
}

// TestAFileIsWhereItSaysItIs: no spelling of a path leads out of the folders, or around
// the table.
func TestAFileIsWhereItSaysItIs(t *testing.T) {
	for _, p := range []string{
		"", "/", "etc/a", "./etc/a", "/etc", "/etc/", "/etc/a/", "/etc//a", "/etc/./a", "/etc/a/.", "/etc/../etc/a", "/etc/../root/a", "/opt/..", "/etc/a\x00b",
		"//etc/a", "/ETC/a", "/usr/local", "/usr/local/../bin/a", "/var/lib/../log/a", "/etc/site/../kubernetes/a", "/usr/localhost/a", "/srv", "/home/a", "/tmp/a",
	} {
		if refused(p) == "" {
			t.Errorf("%q is accepted", p)
		}
	}
	for _, root := range roots {
		for _, p := range []string{root + "/site", root + "/site/a.conf", root + "/..site", root + "/a b"} {
			if got := refused(p); got != "" {
				t.Errorf("%q: %s", p, got)
			}
		}
	}
}

// TestTheNameOfHoldfastInAFileIsHoldfasts, wherever in the name it stands; in the name
// of a folder it is anybody's.
func TestTheNameOfHoldfastInAFileIsHoldfasts(t *testing.T) {
	for _, p := range []string{"/etc/sysctl.d/90-holdfast.conf", "/etc/profile.d/holdfast.sh", "/opt/site/my-holdfast"} {
		if !strings.Contains(refused(p), "belongs to Holdfast") {
			t.Errorf("%s: %q", p, refused(p))
		}
	}
	if got := refused("/opt/holdfast-tools/a"); got != "" {
		t.Errorf("below a folder: %s", got)
	}
	for _, p := range theirs {
		if got := refused(p); got != "" {
			t.Errorf("%s is an administrator's: %s", p, got)
		}
		if refused(p+".bak") == "" || refused(path.Dir(p)) == "" {
			t.Errorf("what lies beside %s is too", p)
		}
	}
}

// TestWhatCarriesAHostIsNoMachineConfigs names, apart from the table, what a host and a
// cluster of two live by: data of etcd and of what keeps it, the runtime, the packages,
// accounts, the way to boot, and who the host is.
func TestWhatCarriesAHostIsNoMachineConfigs(t *testing.T) {
	for _, p := range []string{
		"/etc/cni/net.d/10-site.conflist", "/etc/containerd/config.toml", "/etc/corosync/corosync.conf", "/etc/corosync/authkey", "/etc/default/grub",
		"/etc/dracut.conf.d/a.conf", "/etc/group", "/etc/grub.d/40_custom", "/etc/gshadow", "/etc/hostname", "/etc/hosts", "/etc/initramfs-tools/modules",
		"/etc/kernel/cmdline", "/etc/kubernetes/admin.conf", "/etc/kubernetes/pki/ca.key", "/etc/machine-id", "/etc/pacemaker/authkey", "/etc/passwd",
		"/etc/pki/ca-trust/source/anchors/a.pem", "/etc/resolv.conf", "/etc/shadow", "/etc/systemd/system/etcd.service", "/opt/cni/bin/bridge", "/opt/holdfast/releases/current",
		"/usr/local/share/ca-certificates/a.crt", "/var/lib/containerd/a", "/var/lib/containers/storage/a", "/var/lib/corosync/ringid_1", "/var/lib/dpkg/status",
		"/var/lib/etcd/member/snap/db", "/var/lib/holdfast/events/a", "/var/lib/kubelet/config.yaml", "/var/lib/pacemaker/cib/cib.xml", "/var/lib/pcsd/known-hosts",
		"/var/lib/rpm/Packages", "/var/lib/systemd/random-seed", "/usr/local/bin/kubeadm", "/usr/local/bin/holdfast-agent",
	} {
		if refused(p) == "" {
			t.Errorf("%s may be written by a MachineConfig", p)
		}
	}
	for _, u := range []string{"containerd.service", "corosync.service", "kubelet.service", "pacemaker.service", "pcsd.service", "podman-etcd.service", "holdfast-agent.service"} {
		if !Ours(u) {
			t.Errorf("%s may be stopped by a MachineConfig", u)
		}
	}
	for _, u := range []string{"chronyd.service", "kubelet.socket", "my-holdfast.service", "etcd.service"} {
		if Ours(u) {
			t.Errorf("%s is a person's", u)
		}
	}
	for _, a := range []string{
		"BOOT_IMAGE=/vmlinuz", "init=/bin/sh", "initrd=/a", "rdinit=/a", "root=/dev/sda", "rootflags=ro", "rootfstype=xfs", "rescue", "emergency", "single", "S", "1", "systemd.run=/bin/true", "systemd.unit=rescue.target", "root",
		"rd.lvm.lv=vg/other", "rd.luks.uuid=luks-1", "rd.luks=0", "luks.uuid=1", "rd.md.uuid=1", "rd.dm=0", "rd.multipath=0", "rd.iscsi.initiator=a", "rd.zfcp=1", "rd.zfcp_ports=1", "rd.nvmf.hostnqn=a", "netroot=nbd:a", "nfsroot=a:/b",
		"systemd.mask=holdfast-agent.service", "systemd.mask=holdfast-parachute.timer", "systemd.mask=holdfast-configure", "systemd.mask=kubelet.service", "systemd.mask=kubelet",
		"systemd.setenv=PATH=/opt/site/bin", "systemd.setenv", "systemd.machine_id=0123456789abcdef0123456789abcdef", "systemd.machine-id=0123456789abcdef0123456789abcdef",
		"systemd.confirm_spawn", "systemd.cpu-affinity=0", "systemd.default_device_timeout_sec=1", "systemd.default-timeout-start-sec=1", "systemd.default_standard_output=socket", "systemd.default_standard_error=socket",
		"systemd.volatile=state", "systemd.service_watchdogs=no", "systemd.mount-extra=tmpfs:/var/lib/holdfast:tmpfs", "systemd.set_credential_binary=systemd.unit-dropin.a:AAAA", "rd.systemd.unit=rescue.target", "rd.systemd.gpt_auto=0", "systemd.hostname=a", "fstab=no", "rd.fstab=0",
		"systemd.watchdog_sec=1", "systemd.watchdog_sec=500ms", "systemd.watchdog-sec=1", "systemd.watchdog_sec",
	} {
		var d decoder
		if d.kernelArgument("spec.kernelArguments.0", a); len(d.mistakes) != 1 {
			t.Errorf("%s leads to another system, or to one without a unit of ours or what it needs, and is accepted", a)
		}
	}
	for _, a := range []string{
		"rd.debug", "rd.shell=0", "rd.driver.blacklist=nouveau", "zfcp.allow_lun_scan=0", "nbd.max_part=8", "lvm", "ip=dhcp", "console=ttyS0", "systemd.mask=site.service", "systemd.mask",
		"systemd.watchdog_sec=30", "systemd.watchdog_sec=2min", "systemd.watchdog_sec=off", "systemd.show_status=1", "systemd.dump_core=0", "systemd.unified_cgroup_hierarchy=1", "systemd.log-level=debug", "rd.systemd.show_status=0", "systemd.journald.forward_to_console=1",
	} {
		var d decoder
		if d.kernelArgument("spec.kernelArguments.0", a); len(d.mistakes) != 0 {
			t.Errorf("%s leads to no other system and masks nothing of ours, and is refused: %v", a, d.mistakes)
		}
	}
}
