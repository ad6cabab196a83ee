// Package wiping decides what is removed from a host that is no longer part of a cluster,
// and when that may begin.
package wiping

import (
	"fmt"
	"path"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Node is the state of the host's Node in the cluster.
type Node string

// The states of a Node.
const (
	// Gone means that the cluster has no Node of the host.
	Gone Node = "gone"
	// Ready and NotReady are the states of a Node that exists.
	Ready    Node = "ready"
	NotReady Node = "not ready"
)

// Facts has the facts about the host.
type Facts struct {
	Host string
	// Begun is true if an earlier wipe was allowed, has begun, and Continues.
	Begun bool
	// Site is true if the host belongs to a site.
	Site bool
	// ControlPlane is true if the host is a control plane, Data if it has data of etcd.
	ControlPlane, Data bool
	// Node is the state of the host's Node, unknown if the cluster does not answer. Then Why
	// says why.
	Node state.Fact[Node]
	Why  string
	// Retired says who took the host out, by the cluster's list; empty if nobody did, or if the
	// list could not be read.
	Retired string
	// GiveUp is a person's statement that the whole cluster is given up, and Removed
	// that the host was taken out of a cluster that cannot be asked.
	GiveUp, Removed bool
}

// Life names the cluster and the life of a site to which a host belongs.
type Life struct {
	Cluster string `json:"cluster,omitempty"`
	Life    string `json:"life,omitempty"`
}

// Continues reports whether the wipe that was allowed in one life is still allowed. now is the life of
// site.json, nil without that file: then the wipe has deleted it. A host of another life was
// installed again since.
func Continues(allowed Life, now *Life) bool { return now == nil || *now == allowed }

// Lapses reports whether the permission of a wipe ends with a start of the host's agent. allowed is the boot
// in which a wipe last began or went on, now the present one, empty if nobody knows. A wipe that has ended
// the agent keeps boots from starting it. So where a later boot does, that wipe was broken off before, and
// the host lives on: nobody may wipe it unasked, however much later.
func Lapses(allowed, now string) bool { return now != "" && allowed != now }

// Gate is a reason for which the host is not wiped now, with the way out.
type Gate struct{ Name, Why, Way string }

func (g Gate) String() string { return g.Name + ": " + g.Why + ". " + g.Way }

// Gates returns all closed gates. A wipe that has begun has none: the host is not whole any
// more.
func Gates(f Facts) []Gate {
	if f.Begun || !f.Site || f.GiveUp {
		return nil
	}
	var out []Gate
	switch {
	case f.Data && f.Retired == "":
		out = append(out, Gate{
			"voter", "this host has data of etcd, and nobody took it out of the cluster: it may be a voter, or have the last copy",
			"If the host was replaced, wait until the other one says so (holdfast status). To give the whole cluster up with all its data: --give-up-cluster",
		})
	case !f.Node.Known && !f.Removed:
		out = append(out, Gate{
			"unknown", "the cluster does not answer, so nobody knows whether it still counts on this host (" + f.Why + ")",
			"If the host was removed, say so: --is-removed " + f.Host,
		})
	case f.Node.Known && f.Node.Value != Gone && f.Retired == "":
		out = append(out, Gate{
			"node", fmt.Sprintf("%s is a node of its cluster (%s)", f.Host, f.Node.Value),
			"Remove it first, from another host: holdfast host remove " + f.Host,
		})
	}
	return out
}

// Disks returns an error for each name that is not that of a whole disk below /dev/disk/by-id.
// Only such a name stays with one disk over boots.
func Disks(names []string) []error {
	var out []error
	for _, n := range names {
		if path.Dir(n) != "/dev/disk/by-id" || path.Clean(n) != n || strings.Contains(path.Base(n), "-part") {
			out = append(out, fmt.Errorf("--disk %q: must be a whole disk below /dev/disk/by-id (ls -l /dev/disk/by-id)", n))
		}
	}
	return out
}

// Uses says why a disk is not wiped; empty if nothing uses it. lsblk is what lsblk prints of
// the mount points of the disk and its parts.
func Uses(lsblk string) string {
	for line := range strings.Lines(lsblk) {
		if at := strings.TrimSpace(line); at != "" {
			return "it is in use at " + at
		}
	}
	return ""
}
