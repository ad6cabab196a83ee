package host

import (
	"fmt"
	"slices"
	"strings"

	decide "github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths of what tells a distribution's automatic updates to leave the cluster's
// programs alone. Both are read after the distribution's own files, by their
// names. Hosts of other distributions have no reader of them.
const (
	UnattendedPath  = "/etc/apt/apt.conf.d/99-holdfast"
	NeedrestartPath = "/etc/needrestart/conf.d/zz-holdfast.conf"
)

// keptUnits lists the units that needrestart leaves alone on every host (U3), and
// keptOfPair those of two control planes with fencing. A restart of the network's
// manager takes the routes of pods away (docs/facts/machine-config.md#what-a-change-needs, N3).
var (
	keptUnits  = []string{"NetworkManager", "containerd", "holdfast-", "kubelet", "networking", "systemd-networkd"}
	keptOfPair = []string{"corosync", "pacemaker", "pcsd", "podman"}
)

// updates returns the files about automatic updates. A tool that reboots hosts
// for updates knows nothing of the other host.
func updates(pair bool) []state.File {
	units := keptUnits
	var apt strings.Builder
	apt.WriteString("// Written by Holdfast. Nothing reboots this host automatically.\nUnattended-Upgrade::Automatic-Reboot \"false\";\n")
	if pair {
		units = slices.Concat(keptUnits, keptOfPair)
		apt.WriteString("// Updates of these restart what etcd runs on. Update them by hand, on one host at a time.\nUnattended-Upgrade::Package-Blacklist {\n")
		for _, p := range decide.EtcdPackages() {
			fmt.Fprintf(&apt, "  \"^%s\";\n", p)
		}
		apt.WriteString("};\n")
	}
	var perl strings.Builder
	perl.WriteString("# Written by Holdfast. needrestart proposes no restart of these.\n")
	for _, u := range units {
		fmt.Fprintf(&perl, "$nrconf{override_rc}{qr(^%s)} = 0;\n", u)
	}
	return []state.File{{Path: UnattendedPath, Data: []byte(apt.String())}, {Path: NeedrestartPath, Data: []byte(perl.String())}}
}
