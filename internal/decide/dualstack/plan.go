// Package dualstack decides how a site that runs on one address family gets the second one
// while it serves (docs/adr/0104): what a file may change, what each host does next, and what
// its files become. It takes data and returns data.
package dualstack

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Plan is the announcement that a site gets a second address family. It holds no secret. The
// API has it, and every host keeps a copy.
type Plan struct {
	// ID is random: by it a host knows the plan again.
	ID string    `json:"id"`
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Machines, Pods and Services are the networks of the second family.
	Machines string                     `json:"machines"`
	Pods     config.ClusterNetworkEntry `json:"pods"`
	Services string                     `json:"services"`
	// Hosts are all hosts of the site by the names of their nodes.
	Hosts map[string]Host `json:"hosts"`
	// Begun is true once the first file may change: the plan is not taken back any more. The
	// carrier writes it.
	Begun bool `json:"begun,omitempty"`
}

// Host is what the plan says of a host.
type Host struct {
	ControlPlane bool `json:"controlPlane,omitempty"`
	// Share is the host's part of the second pod network. The plan chooses it, because the
	// share of the first family stays: nothing that runs on the host loses its address.
	Share netip.Prefix `json:"share"`
}

// Order returns the names of the hosts in the order in which they have their turns: control
// planes first. The order is the same for everybody, so nobody needs a lock.
func (p Plan) Order() []string {
	return slices.SortedFunc(maps.Keys(p.Hosts), func(a, b string) int {
		if x, y := p.Hosts[a].ControlPlane, p.Hosts[b].ControlPlane; x != y {
			if x {
				return -1
			}
			return 1
		}
		if a < b {
			return -1
		}
		return 1
	})
}

// Carrier returns the host that writes the objects of the cluster: the first control plane.
func (p Plan) Carrier() string {
	if o := p.Order(); len(o) > 0 && p.Hosts[o[0]].ControlPlane {
		return o[0]
	}
	return ""
}

// Keeps says why no host takes the place of a lost one under a name, empty if one may. One that the plan
// does not name would have one family, and its controller manager would end as soon as a Node has two
// shares.
func (p Plan) Keeps(name string) string {
	if _, named := p.Hosts[name]; p.ID == "" || named {
		return ""
	}
	return fmt.Sprintf("the plan %s of %s gives the site a second address family, and does not name %s: give the new host the name of the old one, or wait until the plan is over: %s", p.ID, p.By, name, statusShow)
}

// Config returns a site's configuration with both families.
func (p Plan) Config(c *config.InstallConfig) *config.InstallConfig {
	out := *c
	n := &out.Networking
	if !slices.Contains(n.MachineNetwork, config.MachineNetworkEntry{CIDR: p.Machines}) {
		n.MachineNetwork = append(slices.Clip(n.MachineNetwork), config.MachineNetworkEntry{CIDR: p.Machines})
	}
	if !slices.Contains(n.ClusterNetwork, p.Pods) {
		n.ClusterNetwork = append(slices.Clip(n.ClusterNetwork), p.Pods)
	}
	if !slices.Contains(n.ServiceNetwork, p.Services) {
		n.ServiceNetwork = append(slices.Clip(n.ServiceNetwork), p.Services)
	}
	return &out
}

// In reports whether a site's configuration has the networks of the plan.
func (p Plan) In(c *config.InstallConfig) bool {
	n := c.Networking
	return slices.Contains(n.MachineNetwork, config.MachineNetworkEntry{CIDR: p.Machines}) && slices.Contains(n.ClusterNetwork, p.Pods) && slices.Contains(n.ServiceNetwork, p.Services)
}

// Before returns a site's configuration with the first family alone.
func (p Plan) Before(c *config.InstallConfig) *config.InstallConfig {
	out := *c
	n := &out.Networking
	n.MachineNetwork = slices.DeleteFunc(slices.Clone(n.MachineNetwork), func(e config.MachineNetworkEntry) bool { return e.CIDR == p.Machines })
	n.ClusterNetwork = slices.DeleteFunc(slices.Clone(n.ClusterNetwork), func(e config.ClusterNetworkEntry) bool { return e == p.Pods })
	n.ServiceNetwork = slices.DeleteFunc(slices.Clone(n.ServiceNetwork), func(s string) bool { return s == p.Services })
	return &out
}

// Check returns everything that keeps a plan from being followed, by its fields. A plan comes
// from the API, so a host checks it before it keeps it.
func (p Plan) Check() []config.Difference {
	var out []config.Difference
	say := func(path, how string) { out = append(out, config.Difference{Path: path, How: how}) }
	if p.ID == "" || p.At.IsZero() {
		say("id", "a plan has an id and a time")
	}
	var families []bool
	for _, n := range []struct{ path, text string }{{"machines", p.Machines}, {"pods.cidr", p.Pods.CIDR}, {"services", p.Services}} {
		net, err := netip.ParsePrefix(n.text)
		if err != nil || net != net.Masked() {
			say(n.path, "is a network, as fd98::/64")
			continue
		}
		families = append(families, net.Addr().Is4())
	}
	if len(slices.Compact(families)) > 1 {
		say("machines", "is of the family of pods and services")
	}
	if p.Carrier() == "" {
		say("hosts", "has a control plane")
	}
	return append(out, p.shares()...)
}

// shares says what is wrong with the hosts' shares of the pod network.
func (p Plan) shares() []config.Difference {
	var out []config.Difference
	pods, err := netip.ParsePrefix(p.Pods.CIDR)
	if err != nil {
		return nil // told already
	}
	of := map[netip.Prefix]string{}
	for _, name := range p.Order() {
		path, s := fmt.Sprintf("hosts[%s].share", name), p.Hosts[name].Share
		switch other := of[s]; {
		case !s.IsValid() || s != s.Masked() || s.Bits() != int(p.Pods.HostPrefix) || !pods.Contains(s.Addr()):
			out = append(out, config.Difference{Path: path, File: s.String(), How: fmt.Sprintf("is a network of %s with the mask /%d", p.Pods.CIDR, p.Pods.HostPrefix)})
		case other != "":
			out = append(out, config.Difference{Path: path, File: s.String(), How: "is the share of " + other})
		}
		of[s] = name
	}
	return out
}
