package deleted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Pair has the facts about Corosync and Pacemaker on one of two hosts.
type Pair struct {
	// Listed are the hosts in corosync.conf, Kept those in the agent's copy of it.
	// Each is nil if there is no such file.
	Listed, Kept []string
	// Broken says why corosync.conf cannot be read, if it is there.
	Broken string
	// Key is true if the key file with which the two hosts sign their packets is there.
	Key bool
	// CIB is true if Pacemaker's configuration lies on the disk.
	CIB bool
	// Running is true if Pacemaker runs on this host.
	Running bool
}

// Names of parts that a pair may lack.
const (
	Membership    = "Corosync's list of hosts"
	Configuration = "Pacemaker's configuration on the disk"
)

// PutBack is the command that puts Corosync's files back.
const PutBack = "sudo holdfast-agent two-node put-back"

// notOff ends the text about a host that Corosync does not list.
const notOff = " A host that Corosync does not list is not off because of that: nothing takes over until it is proven off."

// lost describes the missing parts of Corosync's and Pacemaker's configuration. A person
// typed the command that removed them, so a person has to put them back.
func (p Pair) lost(in Input) []state.Deleted {
	var out []state.Deleted
	missing := p.missing()
	if missing != "" {
		d := state.Deleted{What: Membership, Problem: missing, Meaning: p.means(in.Host) + notOff, Command: PutBack}
		if p.Kept == nil {
			d.Meaning += " The agent has no copy of the file: take it and " + keyPath + " from " + other(in.Peer) + "."
			d.Command = ""
		}
		out = append(out, d)
	}
	if missing == "" && !p.CIB && p.Running {
		out = append(out, state.Deleted{
			What: Configuration, Problem: "/var/lib/pacemaker/cib is gone", Meaning: "Pacemaker runs on with what it has in memory. It writes the file again at the next change, once its folder is there.",
			Command: "sudo install -d -o hacluster -g haclient -m 0750 /var/lib/pacemaker /var/lib/pacemaker/cib",
		})
	}
	return out
}

const keyPath = "/etc/corosync/authkey"

func other(peer string) string {
	if peer == "" {
		return "the other host"
	}
	return peer
}

// missing describes what is wrong with Corosync's files, empty for nothing.
func (p Pair) missing() string {
	switch {
	case p.Broken != "":
		return "corosync.conf cannot be read: " + p.Broken
	case p.Listed == nil:
		return "corosync.conf is gone: this host is in no cluster"
	case !p.Key:
		return keyPath + " is gone: Corosync does not start again on this host"
	case p.Kept != nil && !same(p.Listed, p.Kept):
		return fmt.Sprintf("corosync.conf lists %s; it had %s", names(p.Listed), names(p.Kept))
	}
	return ""
}

func (p Pair) means(host string) string {
	switch {
	case p.Listed == nil, !slices.Contains(p.Listed, host):
		return "At its next boot this host starts neither kubelet nor etcd, and its peer has it fenced."
	case !p.Key:
		return "After its next boot it does not meet its peer."
	}
	return "The two hosts do not see each other any more, and no fence is asked for a host that is not listed."
}

func names(list []string) string {
	if len(list) == 0 {
		return "no host"
	}
	return strings.Join(list, " and ")
}

func same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
