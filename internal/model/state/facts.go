package state

import "net/netip"

// HostFacts holds what a host has to know about itself before it can join a
// cluster.
type HostFacts struct {
	// NodeName is the host name, which becomes the node's name.
	NodeName string `json:"nodeName"`
	// Addresses are the host's own addresses on the machine network, one of
	// each family in the site's order. No VIP is among them.
	Addresses []netip.Addr `json:"addresses"`
	// Interface carries the first of the addresses.
	Interface string `json:"interface"`
	// CgroupV1 is true if the kernel offers only the first version, which kubelet
	// refuses unless it is told otherwise.
	CgroupV1 bool `json:"cgroupV1,omitempty"`
	// RestrictOOM is true if the host may not lower any OOM score, as in a
	// container without CAP_SYS_RESOURCE.
	RestrictOOM bool `json:"restrictOOM,omitempty"`
}

// CgroupDriver returns kubelet's name for the program that makes the control
// groups of containers. systemd wants to be the only writer of its tree, and
// Kubernetes asks for its driver on every host that runs systemd. On a machine
// with the first version, or both, such as a host of the lab, everything was
// measured with groups made beside systemd.
func (h HostFacts) CgroupDriver() string {
	if h.CgroupV1 {
		return "cgroupfs"
	}
	return "systemd"
}
