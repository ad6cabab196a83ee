package pacemakerstatus

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Silence is how long the status in the API may go without a sign of life before a
// host writes it although it is the other host's turn.
const Silence = 90 * time.Second

// Heartbeat is the age at which the time of the status is renewed while nothing
// changes.
const Heartbeat = 30 * time.Second

// meets is how long two Pacemakers may take to agree after Corosync has joined
// their hosts again: 1.6 s in the lab on a busy machine.
const meets = 10 * time.Second

// Writes reports whether this host writes the status, and why. Of two hosts that
// see each other exactly one writes: the one that decides for Pacemaker, or, where
// that one is not there, the first by name of those that are. A host without quorum
// cannot know the state. silent is how long no host has written, as far as this
// host knows; after Silence this host writes in any case.
func Writes(in Input, silent time.Duration) (bool, string) {
	c := in.Cluster.Value
	switch {
	case silent > Silence:
		return true, "no other host writes"
	case !in.Cluster.Known:
		return false, "Pacemaker does not answer here"
	case in.Membership.Known && !in.Membership.Value.Quorate:
		return false, "this host has no quorum"
	case c.Quorate.Known && !c.Quorate.Value:
		return false, "this host has no quorum"
	case in.apart():
		return false, "Pacemaker on this host has not yet rejoined the host that Corosync sees"
	case c.Coordinator == in.Host:
		return true, "this host is Pacemaker's coordinator (DC)"
	case c.Coordinator != "" && in.there(c.Coordinator):
		return false, c.Coordinator + " is Pacemaker's coordinator (DC) and writes"
	case c.Coordinator == "" && !in.alone():
		return false, "Pacemaker has no coordinator (DC) yet"
	}
	if first := in.first(); first != in.Host {
		return false, first + " writes"
	}
	return true, "this host is the first by name of those present"
}

// there reports whether a host is in the membership. It says yes where the
// membership is unknown.
func (in Input) there(name string) bool {
	return !in.Membership.Known || slices.Contains(in.Membership.Value.Members, name)
}

// Peers returns the addresses of the other hosts in Corosync's configuration. It
// leaves out a host that Corosync has lost: asking that one would use up the time
// that this host's own API server needs.
func (in Input) Peers() []string {
	var out []string
	for _, h := range in.Corosync.Value.Nodes {
		if h.Name == in.Host || !in.there(h.Name) {
			continue
		}
		for _, a := range h.Addresses {
			if _, err := netip.ParseAddr(a); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// Blind reports whether this host cannot know the state of any host: it has no
// quorum, or Pacemaker has just started here, or this host has just come out of a
// cut. In each case it takes its peer for lost.
func (in Input) Blind() bool {
	return in.Membership.Known && !in.Membership.Value.Quorate || state.Is(in.Cluster.Value.Quorate, false) ||
		in.Cluster.Known && in.Cluster.Value.Coordinator == "" && !in.alone() || in.apart()
}

// apart reports whether Corosync has just let this host in while Pacemaker here has
// not joined its peer's yet, as on the losing side of a cut that has healed. At
// first Pacemaker here decides for itself and takes the peer for unclean. Then one
// of the two is pending and nothing runs on the other, until the peer's Pacemaker
// tells it the real state. The host that stayed had quorum all the time, and its
// reports are true.
func (in Input) apart() bool {
	return in.Membership.Known && in.QuorateFor < meets && slices.ContainsFunc(in.Cluster.Value.Nodes, func(n crmmon.Node) bool {
		return n.Pending || n.Unclean && n.Name != in.Host && in.there(n.Name)
	})
}

// alone reports whether Corosync sees no other host. Where Corosync sees one, or
// does not answer, and no host decides for Pacemaker, then Pacemaker has just
// started here: until the two have agreed it takes every other host for lost.
func (in Input) alone() bool {
	return in.Membership.Known && len(in.Membership.Value.Members) < 2
}

// first returns the first online host by name, among those in the membership. This
// host counts as online.
func (in Input) first() string {
	var names []string
	for _, n := range in.Cluster.Value.Nodes {
		if (n.Online || n.Name == in.Host) && in.there(n.Name) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return in.Host
	}
	return slices.Min(names)
}
