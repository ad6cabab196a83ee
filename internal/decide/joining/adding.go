package joining

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Adding has the wish of a person who adds a host to a running cluster, and the facts of the
// cluster about it.
type Adding struct {
	Role state.Role
	// Host is its name, empty for any host of the role.
	Host string
	// Addresses are the addresses that the host will have, empty if the person does not say.
	Addresses []netip.Addr
	// Nodes are those of the cluster, Networks the machine networks of the site, and VIPs
	// its virtual IPs.
	Nodes    []state.Node
	Networks []netip.Prefix
	VIPs     []netip.Addr
	// Retired is the list of hosts that were taken out.
	Retired retired.List
	// Pods is the number of pods of an earlier host that are bound to the name. Bound names others that
	// are: each removal of them would be followed by the next (removal.Bound).
	Pods  int
	Bound []string
	// Upgrade says what an upgrade of the site does now, empty if none is under way.
	Upgrade string
	// Family is the plan that gives the site a second address family, nil for none.
	Family *dualstack.Plan
	// Moves says why no host comes since a move of the site is announced, empty for no reason.
	Moves string
	// Waits says why no machine takes the place of a lost control plane yet; empty for nothing.
	Waits string
}

// Add returns every reason for which the host is not added. If there is none, it returns notes
// for the person.
func Add(s Site, a Adding) (refused []error, notes []string) {
	refused = append(refused, s.place(a)...)
	refused = append(refused, a.addresses()...)
	if err := s.Share(a.Host, a.Nodes); err != nil {
		refused = append(refused, err)
	}
	if a.Upgrade != "" {
		refused = append(refused, refuse("an upgrade of the site is under way (%s): a host that joins now has no release to go back to; wait until the upgrade is over: holdfast upgrade status", a.Upgrade))
	}
	if p := a.Family; p != nil {
		if _, in := p.Hosts[a.Host]; !in { // a host of that name in place of a lost one goes on with the plan
			refused = append(refused, refuse("the plan %s of %s gives the site a second address family: a host that joins now would have the first one alone; wait until the plan is over: holdfast site dual-stack status", p.ID, p.By))
		}
	}
	if a.Moves != "" {
		refused = append(refused, refuse("%s: %s", a.Moves, readdress.WithdrawCommand))
	}
	if a.Waits != "" {
		refused = append(refused, refuse("not yet: %s", a.Waits))
	}
	if h, out := a.Retired.Of(a.Host); out && h.Open() {
		notes = append(notes, fmt.Sprintf("a host of this name was %s: if it is another machine, it must be wiped, or stay off", h))
	}
	for _, pod := range a.Bound {
		notes = append(notes, "still bound to this name: "+pod)
	}
	return refused, notes
}

// Share says why the pod network has no share for a further host, nil if it has one. Such a
// host would become a node and never run a pod.
func (s Site) Share(host string, nodes []state.Node) error {
	others := 0
	for _, n := range nodes {
		if n.Name != host {
			others++
		}
	}
	if s.Shares == 0 || others < s.Shares {
		return nil
	}
	return refuse("the pod network has room for %d hosts and %d are nodes (networking.clusterNetwork, which a living site keeps): take a host out first, or install another site with more room", s.Shares, others)
}

// place says why the cluster has no place for the host, or not under its name.
func (s Site) place(a Adding) []error {
	var out []error
	planes := controlPlanes(a.Nodes)
	err := s.Role(a.Role)
	if a.Host != "" {
		err = s.Name(a.Role, a.Host, planes)
	}
	if err != nil {
		out = append(out, err)
	}
	others := slices.DeleteFunc(slices.Clone(planes), func(name string) bool { return name == a.Host })
	switch full := len(others) >= s.ControlPlanes; {
	case a.Role != state.RoleMaster || s.ControlPlanes == 1:
	case full:
		out = append(out, refuse("this site has %d control planes and all are nodes (%s): the number is fixed at the installation", s.ControlPlanes, strings.Join(others, ", ")))
	case len(s.Fenced) > 0:
		out = append(out, refuse("this site has two control planes: to give the place of a lost one to another machine, run on the host that stays: holdfast host replace NAME"))
	}
	if i := slices.IndexFunc(a.Nodes, func(n state.Node) bool { return n.Name == a.Host }); i >= 0 {
		out = append(out, has(a.Nodes[i]))
	} else if a.Pods > 0 {
		out = append(out, refuse("%d pods of an earlier host %s are left, and its successor would get them: holdfast host remove %[2]s", a.Pods, a.Host))
	}
	return out
}

// has returns the reason for a name that a node has, with the way out.
func has(n state.Node) error {
	if n.Ready {
		return refuse("%s is already a node of this cluster, and ready: give the new host another name", n.Name)
	}
	return refuse("%s is already a node of this cluster, and not ready: if it is gone for good, remove it first: holdfast host remove %[1]s --is-off %[1]s", n.Name)
}

// addresses returns the reasons for addresses that the host cannot have.
func (a Adding) addresses() []error {
	var out []error
	for _, address := range a.Addresses {
		if slices.Contains(a.VIPs, address) {
			out = append(out, refuse("address %s is a virtual IP of this site", address))
		}
		if len(a.Networks) > 0 && !slices.ContainsFunc(a.Networks, func(p netip.Prefix) bool { return p.Contains(address) }) && a.Role == state.RoleMaster {
			out = append(out, refuse("address %s is in none of the site's machine networks", address))
		}
		for _, n := range a.Nodes {
			if slices.Contains(n.Addresses, address) {
				out = append(out, refuse("address %s is that of %s", address, n.Name))
			}
		}
	}
	return out
}
