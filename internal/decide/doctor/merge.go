package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Merge combines the facts from the API and from hosts. A host's answer now has
// precedence over its published facts, and those over nothing.
func Merge(found Facts, hosts []Host, now time.Time) Facts {
	facts := Facts{At: now, Topology: found.Topology, Cluster: found.Cluster, Hosts: found.Hosts}
	for _, h := range hosts {
		i := slices.IndexFunc(facts.Hosts, func(o Host) bool { return o.Name == h.Name })
		switch {
		case i < 0 && found.Cluster.Nodes.Known && h.Source == Here:
			// A worker: workers are not checked.
		case i < 0:
			facts.Hosts = append(facts.Hosts, h)
		case h.Source == Unasked:
			facts.Hosts[i].Trouble = append(facts.Hosts[i].Trouble, h.Trouble...)
		default:
			h.Offset = closer(facts.Hosts[i].Offset, h.Offset)
			facts.Hosts[i] = h
		}
		if t := h.Topology; t.Known && facts.Topology.ControlPlanes == 0 {
			facts.Topology = t.Value
		}
	}
	facts.Hosts = missing(facts)
	slices.SortFunc(facts.Hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return forget(facts)
}

// missing adds the control planes that no source reported: under the name by
// which a peer can fence them, or as a nameless one.
func missing(facts Facts) []Host {
	hosts := facts.Hosts
	add := func(name string) {
		if !slices.ContainsFunc(hosts, func(h Host) bool { return h.Name == name }) {
			hosts = append(hosts, Host{Name: name})
		}
	}
	for _, h := range facts.Hosts {
		for _, b := range h.BMCs.Value {
			add(b.Target)
		}
	}
	if len(hosts) < facts.Topology.ControlPlanes {
		add("another control plane")
	}
	return hosts
}

// tooOld is the greatest age of published facts that still count. An agent
// publishes every half hour.
const tooOld = 2 * time.Hour

// forget drops facts that were published too long ago by the host's own clock.
// The host's clock may be wrong; the check of the clocks reports that.
func forget(facts Facts) Facts {
	for i, h := range facts.Hosts {
		if age := facts.At.Sub(h.To); h.Source == Published && age > tooOld {
			facts.Hosts[i] = Host{
				Name: h.Name, Offset: h.Offset, Topology: h.Topology,
				Trouble: []string{fmt.Sprintf("its agent has published nothing for %s: see holdfast-agent.service there", age.Round(time.Minute))},
			}
		}
	}
	return facts
}

// closer returns the offset with the smaller uncertainty.
func closer(a, b state.Fact[Offset]) state.Fact[Offset] {
	if !a.Known || b.Known && b.Value.High-b.Value.Low <= a.Value.High-a.Value.Low {
		return b
	}
	return a
}
