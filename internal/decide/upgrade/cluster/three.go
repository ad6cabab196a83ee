package cluster

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// three is the number of control planes of which one can be lost without a stop. The next one that
// leaves, for its turn too, stops etcd: so a site of three that has two gives no turn until another
// machine votes (docs/adr/0101).
const three = 3

// planes counts the control planes that have a Node.
func (s Site) planes() int {
	n := 0
	for _, h := range s.Hosts {
		if !h.Worker {
			n++
		}
	}
	return n
}

// fewer says why no host of a site of three is given its turn while it has two; empty if it may be.
// A Node that has come back, or that of another machine, is waited for by the rule of everybody until
// its etcd votes.
func (s Site) fewer() string {
	r, there := s.Record, s.planes()
	if r.Planes < three || there >= r.Planes || r.NoWayBack || r.Returning && s.keepsLevel() {
		return ""
	}
	return fmt.Sprintf("%d of %d control planes are there, and etcd stops with the next one that leaves: let another machine take the place of the lost one, `holdfast host replace` with its name", there, r.Planes)
}

// keepsLevel reports whether a control plane of the new release is known to behave as the former minor
// release of Kubernetes. No machine is let in beside it (hold.OfLostOfThree), so a person who goes
// back does not wait for one: each host that goes back stops etcd for as long as it starts again.
func (s Site) keepsLevel() bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool {
		return !h.Worker && state.Is(h.Running, s.Record.To) && state.Is(h.servers(), false)
	})
}
