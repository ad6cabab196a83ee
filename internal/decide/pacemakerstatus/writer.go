package pacemakerstatus

import (
	"slices"
	"time"
)

// Silence is how long the status in the API may go without a sign of life
// before another host than the one whose turn it is writes it.
const Silence = 90 * time.Second

// Heartbeat is how old the time of the status may become while nothing changes.
const Heartbeat = 30 * time.Second

// Writes reports whether this host is the one that writes the status, and says
// why. Of two hosts that see each other one does: the one that decides for
// Pacemaker, and where none does, the first by name of those that are there. A
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
	case c.Coordinator == in.Host:
		return true, "this host decides for Pacemaker"
	case c.Coordinator != "" && in.there(c.Coordinator):
		return false, c.Coordinator + " decides for Pacemaker and writes"
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
