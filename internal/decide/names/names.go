// Package names decides which names a host answers for, where its name server
// listens, whom it asks for all other names, and how the host makes itself
// known to its neighbours.
package names

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Zone is what a cluster's name server knows.
type Zone struct {
	// Domain is the cluster's own, lower case and without a final dot.
	Domain string
	// Names are sorted by name.
	Names []Name
	// Complete is false while nobody knows the nodes: the names are then those
	// of the VIPs and of the host itself.
	Complete bool
	// Omitted says which nodes have no name here, and why.
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

// Decide returns the zone for a view, and false where the view does not know
// enough for one: without a domain no name can be formed.
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

// withSelf returns the nodes with what this host knows of itself: it sees its
// own addresses change before the API does, and knows its name before it is a
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

// builder gathers the names of one zone.
type builder struct {
	zone *Zone
	vips []netip.Addr
	// taken is who has a name.
	taken map[string]string
}

// virtual adds a name of VIPs, none where there are no VIPs: it is then the
// site's to answer.
func (b *builder) virtual(label string, vips []netip.Addr) {
	name := label + "." + b.zone.Domain
	b.taken[name] = "the cluster"
	if addrs := addresses(vips, nil); len(addrs) > 0 {
		b.zone.Names = append(b.zone.Names, Name{name, addrs})
	}
}

// nodes adds the names of all nodes. A name that two nodes claim is a control
// plane's before a worker's: a kubelet may say what its node is called, and may
// not say that it is a control plane. Of two alike it belongs to neither, since it
// would lead to either of them.
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

// claim is who says that a name is its own.
type claim struct{ nodes, controlPlanes []string }

func (c claim) and(n state.Node) claim {
	c.nodes = append(c.nodes, n.Name)
	if n.ControlPlane() {
		c.controlPlanes = append(c.controlPlanes, n.Name)
	}
	return c
}

// against tells why a name is not that of one who claims it, empty if it is.
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
		b.omit(n, "its name cannot be one of a host")
		return
	case len(addrs) == 0:
		b.omit(n, "it has no address that others reach")
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

// namesOf returns the names of a node: the first label of its name alone and
// below the domain, and its whole name if that lies below the domain too.
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

// below reports whether a name lies below another: what lies below the
// wildcard is the ingress's.
func below(name, above string) bool { return strings.HasSuffix(name, "."+above) }

// reserved are short names that mean something else everywhere; a node could
// else take the names of every host's own services away.
var reserved = map[string]bool{"localhost": true, "local": true, "localdomain": true}

// Short is the first label of a host's name, in lower case.
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
