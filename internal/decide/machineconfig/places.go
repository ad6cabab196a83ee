package machineconfig

import (
	"path"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// roots are the folders in which the files of a MachineConfig may be. All others
// belong to packages, to the kernel or to people, or are empty after a boot.
var roots = []string{"/etc", "/opt", "/srv", "/usr/local", "/var/lib"}

// owner names who else writes below a path.
type owner struct{ path, who string }

// owners lists the paths inside of the roots that somebody else writes. A path
// with a slash at its end names a folder.
var owners = []owner{
	{"/etc/cni/", "the installation"},
	{"/etc/containerd/config.toml", "the installation"},
	{"/etc/corosync/", "the setup of Corosync"},
	{"/etc/default/grub", bootLoader},
	{"/etc/default/grub.d/", bootLoader},
	{"/etc/dracut.conf.d/", initial},
	{"/etc/group", accounts},
	{"/etc/grub.d/", bootLoader},
	{"/etc/gshadow", accounts},
	{"/etc/holdfast/", "Holdfast"},
	{"/etc/hostname", "the host, whose node has the same name"},
	{"/etc/hosts", "the installation"},
	{"/etc/initramfs-tools/", initial},
	{"/etc/kernel/", bootLoader},
	{"/etc/kubernetes/", "kubeadm and Holdfast"},
	{"/etc/machine-id", "the host, which is known by it"},
	{"/etc/pacemaker/", "the setup of Pacemaker"},
	{"/etc/passwd", accounts},
	{"/etc/pki/ca-trust/", authorities},
	{"/etc/resolv.conf", "Holdfast, which asks the host's own name server first"},
	{"/etc/shadow", accounts},
	{"/etc/systemd/system/", "systemd; write it into systemd.units"},
	{"/opt/cni/", "the release"},
	{"/opt/holdfast/", "the release"},
	{"/usr/local/share/ca-certificates/", authorities},
	{"/var/lib/containerd/", "containerd"},
	{"/var/lib/containers/", "podman"},
	{"/var/lib/corosync/", "Corosync"},
	{"/var/lib/dpkg/", "the distribution's packages"},
	{"/var/lib/etcd/", "etcd"},
	{"/var/lib/holdfast/", "Holdfast"},
	{"/var/lib/kubelet/", "kubelet"},
	{"/var/lib/pacemaker/", "Pacemaker"},
	{"/var/lib/pcsd/", "pcsd"},
	{"/var/lib/rpm/", "the distribution's packages"},
	{"/var/lib/systemd/", "systemd"},
}

const (
	// A file alone would change nothing: the distribution's tool makes the list, or
	// the initial RAM disk, of it.
	authorities = "the authorities of the site, which the ConfigMap has that Proxy cluster names in spec.trustedCA"
	initial     = "the tool that makes the initial RAM disk, which a MachineConfig does not run"
	accounts    = "the host; keys of " + User + " are set in passwd.users"
	bootLoader  = "the boot loader; write its arguments into spec.kernelArguments"
)

// marked is in the name of each file that Holdfast puts into a folder of others.
const marked = "holdfast"

// theirs are the files that would be Holdfast's by the table, and are written by
// people.
var theirs = []string{state.FirewallAlsoPath}

// place refuses a path that somebody else writes.
func (d *decoder) place(field, p string) {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		d.fault(field, "%q is not a clean absolute path", p)
		return
	}
	if !slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(p, root+"/") }) {
		d.fault(field, "%s lies outside of %s, where files of a MachineConfig may be", p, strings.Join(roots, ", "))
		return
	}
	if slices.Contains(theirs, p) {
		return
	}
	i := slices.IndexFunc(owners, func(o owner) bool { return o.owns(p) })
	switch {
	case i >= 0:
		d.fault(field, "%s belongs to %s", p, owners[i].who)
	case strings.Contains(path.Base(p), marked):
		d.fault(field, "%s belongs to Holdfast, whose files have its name in theirs; choose another name", p)
	case ofTheWayBack(p):
		d.fault(field, "%s is read by systemd for units of Holdfast, and a host that cannot have its configuration goes back by them; choose another place", p)
	case ofTheRelease(p):
		d.fault(field, "%s belongs to the release", p)
	}
}

// ofTheRelease reports whether a path is that of a program which a release
// brings to each host.
func ofTheRelease(p string) bool {
	for _, image := range payload.Images() {
		if image.Name == payload.HostImage {
			return slices.ContainsFunc(image.Files, func(f payload.ImageFile) bool { return f.Path == p })
		}
	}
	return false
}

func (o owner) owns(p string) bool {
	if folder, ok := strings.CutSuffix(o.path, "/"); ok {
		return p == folder || strings.HasPrefix(p, o.path)
	}
	return p == o.path
}

// unitsOfHosts are the units that Holdfast starts, stops or writes, beside those
// with its name.
var unitsOfHosts = []string{"containerd.service", "corosync.service", "kubelet.service", "pacemaker.service", "pcsd.service", "podman-etcd.service"}

// proxyDropin is the name of the drop-in with the site's proxy.
const proxyDropin = "10-proxy.conf"

// Ours reports whether a unit is Holdfast's.
func Ours(unit string) bool {
	return slices.Contains(unitsOfHosts, unit) || strings.HasPrefix(unit, marked)
}
