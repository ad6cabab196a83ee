// Package wiping decides what is taken off a host that is not part of a cluster any
// more, and when that may begin.
package wiping

import (
	"fmt"
	"path"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Node is what the cluster says of the host.
type Node string

// What the cluster says.
const (
	// Gone means that it has no Node of that name.
	Gone Node = "gone"
	// Ready and NotReady are those of a Node that is there.
	Ready    Node = "ready"
	NotReady Node = "not ready"
)

// Facts is what is known of the host.
type Facts struct {
	Host string
	// Begun is true if an earlier wipe was allowed and has begun.
	Begun bool
	// Site is true if the host belongs to a site.
	Site bool
	// ControlPlane is true if it is one, Data if it has data of etcd.
	ControlPlane, Data bool
	// Node is what the cluster says of the host, unknown if it does not answer. Why
	// says then why.
	Node state.Fact[Node]
	Why  string
	// Retired says who took the host out, as the cluster's list has it; empty for
	// nobody, or where the host may not read the list.
	Retired string
	// GiveUp is a person's statement that the whole cluster is given up, and Removed
	// that the host was taken out of a cluster that cannot be asked.
	GiveUp, Removed bool
}

// Gate is a reason why the host is not wiped now.
type Gate struct{ Name, Why, Way string }

func (g Gate) String() string { return g.Name + ": " + g.Why + ". " + g.Way }

// Gates returns all closed gates. What has begun goes on: the host is not whole any
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
			"A host that was replaced: wait until the other one says so (holdfast status). To give the whole cluster up with all its data: --give-up-cluster",
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

// Disks returns what is wrong with the names of disks. Only a name that stays with one
// disk over boots names a disk.
func Disks(names []string) []error {
	var out []error
	for _, n := range names {
		if path.Dir(n) != "/dev/disk/by-id" || path.Clean(n) != n || strings.Contains(path.Base(n), "-part") {
			out = append(out, fmt.Errorf("--disk %q: must be a whole disk below /dev/disk/by-id (ls -l /dev/disk/by-id)", n))
		}
	}
	return out
}

// Uses returns why a disk is not wiped, by the mount points of it and its parts as
// lsblk prints them; empty if nothing uses it.
func Uses(lsblk string) string {
	for line := range strings.Lines(lsblk) {
		if at := strings.TrimSpace(line); at != "" {
			return "it is in use at " + at
		}
	}
	return ""
}
