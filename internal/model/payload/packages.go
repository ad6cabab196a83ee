package payload

import (
	"slices"
)

// Extension is an optional part of a host, by its name in configurations.
type Extension string

// ExtensionTwoNodeHA makes a host fit for a control plane of two: the cluster
// manager, fencing and podman to run etcd under it.
const ExtensionTwoNodeHA Extension = "two-node-ha"

// Family is a family of distributions, by its package manager.
type Family string

// The families.
const (
	APT Family = "apt"
	DNF Family = "dnf"
)

// hostPackage is a package under its Debian name and, if it differs, its name
// for dnf.
type hostPackage struct{ apt, dnf string }

func (p hostPackage) name(f Family) string {
	if f == DNF && p.dnf != "" {
		return p.dnf
	}
	return p.apt
}

// basePackages lists the packages that every host needs.
var basePackages = []hostPackage{
	{apt: "ca-certificates"},
	{apt: "conntrack", dnf: "conntrack-tools"},
	{apt: "dbus"},
	{apt: "ethtool"},
	{apt: "iproute2", dnf: "iproute"},
	{apt: "iptables", dnf: "iptables-nft"},
	{apt: "kmod"},
	{apt: "mount", dnf: "util-linux-core"},
	{apt: "nftables"},
	{apt: "openssh-server"},
	{apt: "procps", dnf: "procps-ng"},
	{apt: "runc"},
	{apt: "socat"},
	{apt: "sudo"},
	{apt: "systemd"},
	{apt: "util-linux"},
}

var extensionPackages = map[Extension][]hostPackage{
	ExtensionTwoNodeHA: {
		{apt: "corosync"},
		{apt: "fence-agents", dnf: "fence-agents-redfish"},
		// Pacemaker writes some 5 MB a day into its log on the host that decides, and only
		// recommends what rotates it.
		{apt: "logrotate"},
		{apt: "pacemaker"},
		{apt: "pacemaker-cli-utils", dnf: "pacemaker-cli"},
		{apt: "pcs"},
		{apt: "podman"},
		{apt: "resource-agents"},
	},
}

// HostPackages lists, sorted, the Debian packages that a host with these
// extensions needs.
func HostPackages(ext ...Extension) []string { return HostPackagesFor(APT, ext...) }

// HostPackagesFor returns HostPackages under the names of a family.
func HostPackagesFor(f Family, ext ...Extension) []string {
	all := slices.Clone(basePackages)
	for _, e := range ext {
		all = append(all, extensionPackages[e]...)
	}
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.name(f))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
