// Package names decides which names a host answers for, where its name server
// listens, which servers it asks for all other names, and how the host announces
// itself to its neighbours.
package names

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Zone holds what a cluster's name server knows.
type Zone struct {
	// Domain is the cluster's own, lower case and without a final dot.
	Domain string
	// Names are sorted by name.
	Names []Name
	// Complete is false while the nodes are unknown: the zone then holds only the
	// names of the VIPs and of the host itself.
	Complete bool
	// Omitted lists the nodes that have no name here, and why.
	Omitted []Omission
}

// Name is one name and all its addresses, sorted. It has no final dot; a
// wildcard begins with "*.".
type Name struct {
	Name      string
	Addresses []netip.Addr
}

// Omission is a node, or one of its names, that is left out.
type Omission struct {
	Node, Reason string
}

// Decide returns the zone for a view, and false if the view knows too little for
// one: without a domain no name can be formed.
func Decide(view state.NetworkView) (Zone, bool) {
	domain := strings.ToLower(strings.TrimSuffix(view.Settings.Domain, "."))
	if !validName(domain) {
		return Zone{}, false
	}
	z := Zone{Domain: domain, Complete: view.Nodes.Known}
	b := builder{zone: &z, vips: view.Settings.VIPs(), taken: map[string]string{}}
	b.virtual("api", view.Settings.APIVIPs)
	b.virtual("api-int", view.Settings.APIVIPs)
	b.virtual("*.apps", view.Settings.IngressVIPs)
	b.nodes(withSelf(view))
	slices.SortFunc(z.Names, func(a, b Name) int { return strings.Compare(a.Name, b.Name) })
	return z, true
}

// withSelf returns the nodes, with this host's own knowledge of itself: it sees
// its addresses change before the API does, and knows its name before it is a
// node.
func withSelf(view state.NetworkView) []state.Node {
	nodes := slices.Clone(view.Nodes.Value)
	if view.Host.NodeName == "" || len(view.Host.Addresses) == 0 {
		return nodes
	}
	for i, n := range nodes {
		if n.Name == view.Host.NodeName {
			nodes[i].Addresses = view.Host.Addresses
			return nodes
		}
	}
	own := state.Node{Name: view.Host.NodeName, Addresses: view.Host.Addresses}
	if view.Role.ControlPlane() {
		own.Labels = map[string]string{state.LabelControlPlane: ""}
	}
	return append(nodes, own)
}

// builder collects the names of one zone.
type builder struct {
	zone *Zone
	vips []netip.Addr
	// taken holds the owner of each name.
	taken map[string]string
}

// virtual adds a name of VIPs. Without VIPs it adds none: the site answers for
// the name then.
func (b *builder) virtual(label string, vips []netip.Addr) {
	name := label + "." + b.zone.Domain
	b.taken[name] = "the cluster"
	if addrs := addresses(vips, nil); len(addrs) > 0 {
		b.zone.Names = append(b.zone.Names, Name{name, addrs})
	}
}

// nodes adds the names of all nodes. If two nodes claim a name, a control plane
// comes before a worker: a kubelet may choose the name of its node, but may not
// make it a control plane. If both are of the same kind, neither gets the name,
// because it would lead to either of them.
func (b *builder) nodes(nodes []state.Node) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, state.CompareNodes)
	claims := map[string]claim{}
	for _, n := range nodes {
		for _, name := range namesOf(n.Name, b.zone.Domain) {
			claims[name] = claims[name].and(n)
		}
	}
	for _, n := range nodes {
		b.node(n, claims)
	}
}

// claim lists the nodes that claim a name.
type claim struct{ nodes, controlPlanes []string }

func (c claim) and(n state.Node) claim {
	c.nodes = append(c.nodes, n.Name)
	if n.ControlPlane() {
		c.controlPlanes = append(c.controlPlanes, n.Name)
	}
	return c
}

// against says why a name does not belong to a node that claims it, empty if it
// does.
func (c claim) against(node string) string {
	first := c.controlPlanes
	if len(first) == 0 {
		first = c.nodes
	}
	switch {
	case len(first) > 1:
		return "is claimed by " + strings.Join(c.nodes, " and ")
	case first[0] != node:
		return "belongs to the control plane " + first[0]
	}
	return ""
}

func (b *builder) node(n state.Node, claims map[string]claim) {
	addrs := addresses(n.Addresses, b.vips)
	names := namesOf(n.Name, b.zone.Domain)
	switch {
	case len(names) == 0:
		b.omit(n, "its name is not a valid host name")
		return
	case len(addrs) == 0:
		b.omit(n, "it has no address that other hosts can reach")
		return
	}
	for _, name := range names {
		if owner, ok := b.taken[name]; ok {
			b.omit(n, name+" belongs to "+owner)
		} else if why := claims[name].against(n.Name); why != "" {
			b.omit(n, name+" "+why)
		} else {
			b.zone.Names = append(b.zone.Names, Name{name, addrs})
		}
	}
}

func (b *builder) omit(n state.Node, reason string) {
	b.zone.Omitted = append(b.zone.Omitted, Omission{n.Name, reason})
}

// namesOf returns the names of a node: its first label, alone and below the
// domain, and its whole name if that lies below the domain, too.
func namesOf(node, domain string) []string {
	node = strings.ToLower(strings.TrimSuffix(node, "."))
	short := Short(node)
	if !validName(node) || reserved[short] {
		return nil
	}
	out := []string{short, short + "." + domain}
	if strings.HasSuffix(node, "."+domain) && node != out[1] {
		out = append(out, node)
	}
	return slices.DeleteFunc(out, func(name string) bool { return !validName(name) || below(name, "apps."+domain) })
}

// below reports whether a name lies below another. Names below the wildcard
// belong to ingress.
func below(name, above string) bool { return strings.HasSuffix(name, "."+above) }

// reserved holds short names that mean something else on every host. A node with
// such a name could take over the names of every host's own services.
var reserved = map[string]bool{"localhost": true, "local": true, "localdomain": true}

// Short returns the first label of a host's name, in lower case.
func Short(node string) string {
	short, _, _ := strings.Cut(strings.ToLower(node), ".")
	return short
}

// validName reports whether a name is one that a host may have (RFC 1123).
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return true
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// addresses returns the sorted addresses that other hosts can reach, without
// those in except.
func addresses(have, except []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range have {
		if a = a.Unmap(); reachable(a) && !slices.Contains(except, a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func reachable(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && a.IsGlobalUnicast()
}
