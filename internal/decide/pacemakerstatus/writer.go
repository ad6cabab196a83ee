package pacemakerstatus

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Silence is how long the status in the API may go without a sign of life
// before another host than the one whose turn it is writes it.
const Silence = 90 * time.Second

// Heartbeat is how old the time of the status may become while nothing changes.
const Heartbeat = 30 * time.Second

// meets is how long two Pacemakers may take to agree once Corosync has joined
// their hosts again: 1.6 s in the lab on a busy machine.
const meets = 10 * time.Second

// Writes reports whether this host is the one that writes the status, and says
// why. Of two hosts that see each other one does: the one that decides for
// Pacemaker, and where that is not there, the first by name of those that are. A
// host without quorum does not know what is; silent is how long nobody has
// written, as long as this host knows.
func Writes(in Input, silent time.Duration) (bool, string) {
	c := in.Cluster.Value
	switch {
	case silent > Silence:
		return true, "nobody else does"
	case !in.Cluster.Known:
		return false, "Pacemaker does not answer here"
	case in.Membership.Known && !in.Membership.Value.Quorate:
		return false, "this host has no quorum"
	case c.Quorate.Known && !c.Quorate.Value:
		return false, "this host has no quorum"
	case in.apart():
		return false, "Pacemaker here has not met the host again that Corosync sees"
	case c.Coordinator == in.Host:
		return true, "this host decides for Pacemaker"
	case c.Coordinator != "" && in.there(c.Coordinator):
		return false, c.Coordinator + " decides for Pacemaker and writes"
	case c.Coordinator == "" && !in.alone():
		return false, "no host of Pacemaker decides yet"
	}
	if first := in.first(); first != in.Host {
		return false, first + " writes"
	}
	return true, "this host is the first that is there"
}

// there reports whether a host is in the membership, as far as that is known.
func (in Input) there(name string) bool {
	return !in.Membership.Known || slices.Contains(in.Membership.Value.Members, name)
}

// Peers are the addresses of the other hosts that Corosync's configuration names,
// but of one that it has lost: to ask that takes the time that this host's own
// API server needs.
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

// Blind reports whether this host cannot know how any host is: it has no quorum,
// or Pacemaker has just started here, or has just come out of a cut. Each time it
// takes its peer for lost.
func (in Input) Blind() bool {
	return in.Membership.Known && !in.Membership.Value.Quorate || state.Is(in.Cluster.Value.Quorate, false) ||
		in.Cluster.Known && in.Cluster.Value.Coordinator == "" && !in.alone() || in.apart()
}

// apart reports whether Corosync has just let this host in and Pacemaker here
// has not joined its peer's yet, as on the losing side of a cut that has healed:
// it decides for itself, its peer is unclean to it, then one of the two is
// pending and nothing runs on the other, until that tells it what there is. The
// one that stayed had quorum all the time, and what it says is true.
func (in Input) apart() bool {
	return in.Membership.Known && in.QuorateFor < meets && slices.ContainsFunc(in.Cluster.Value.Nodes, func(n crmmon.Node) bool {
		return n.Pending || n.Unclean && n.Name != in.Host && in.there(n.Name)
	})
}

// alone reports whether Corosync sees no other host. While it does, or does not
// say, and none decides for Pacemaker, that has just started here: until the two
// have agreed it takes every other host for lost.
func (in Input) alone() bool {
	return in.Membership.Known && len(in.Membership.Value.Members) < 2
}

// first is the first host by name that is online.
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
