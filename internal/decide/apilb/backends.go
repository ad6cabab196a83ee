// Package apilb decides about the load balancer of the API on one control plane:
// which API servers are behind it, which changes lead a running one from the
// servers that it has to those that it should have, and when the virtual IPs lead
// to it.
package apilb

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/order"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The ports of the API and of its load balancer.
const (
	ServerPort   = 6443
	BalancerPort = 9445
)

// ReadyPath is the path at which an API server reports whether it is ready. The API
// server asks its etcd twice there, one after the other. The second answer is
// enough, and without the first it comes before a check's time is over.
const ReadyPath = "/readyz?exclude=etcd"

// ReadyWithoutEtcdPath is the path at which an API server reports whether it would be
// ready if its etcd answered: it has begun, and is not about to end.
const ReadyWithoutEtcdPath = ReadyPath + "&exclude=etcd-readiness"

// VerifyName is a name that every API server's certificate has, and no other
// certificate of the cluster's authority.
const VerifyName = "kubernetes.default.svc"

// Backend is one way to one API server.
type Backend struct {
	Node string
	Addr netip.Addr
	// Backup is true for a way that is taken only while no other way to any API
	// server works: a node's address of the second family.
	Backup bool
}

// backupMark marks the name of a server that is a backup. No node's name has a
// colon.
const backupMark = ":backup:"

// Server returns the backend's name in the load balancer. The name holds everything
// that a backend is, so a server of that name is never changed, only added or
// removed: a backend with another address is another server.
func (b Backend) Server() string {
	if b.Backup {
		return b.Node + backupMark + b.Addr.String()
	}
	return b.Node + ":" + b.Addr.String()
}

// NodeOf returns the node that a server of this name leads to.
func NodeOf(server string) string {
	node, _, _ := strings.Cut(server, ":")
	return node
}

// Wanted reports whether this host balances the API at all: every control plane of
// a site whose hosts hold the virtual IPs does. It is unknown while the settings
// are.
func Wanted(v state.NetworkView) state.Fact[bool] {
	if v.Settings.Cluster == "" || v.Role == "" {
		return state.Fact[bool]{}
	}
	return state.Known(v.Role.ControlPlane() && v.Settings.ManagedVIPs && len(v.Settings.APIVIPs) > 0)
}

// Backends returns the API servers behind the load balancer of this host, its own
// first: each control plane by its address of the first API VIP's family, and as a
// backup by one of the other family. They are unknown where the nodes are, or where
// no control plane is among them, because no cluster answers that. The host that
// starts a cluster then has its own API server.
func Backends(v state.NetworkView) state.Fact[[]Backend] {
	var out []Backend
	for _, n := range v.Nodes.Value {
		if v.Nodes.Known && n.ControlPlane() {
			out = append(out, ways(v, n.Name, n.Addresses)...)
		}
	}
	if v.Role == state.RoleBootstrap && !slices.ContainsFunc(out, func(b Backend) bool { return b.Node == v.Host.NodeName }) {
		out = append(out, ways(v, v.Host.NodeName, v.Host.Addresses)...)
	}
	if len(out) == 0 {
		return state.Fact[[]Backend]{}
	}
	slices.SortStableFunc(out, func(a, b Backend) int { return compare(v.Host.NodeName, a, b) })
	return state.Known(out)
}

// compare orders backends: backups last, then this host's own first, then by name.
func compare(own string, a, b Backend) int {
	return cmp.Or(
		order.First(!a.Backup, !b.Backup), order.First(a.Node == own, b.Node == own), strings.Compare(a.Node, b.Node),
	)
}

// ways returns the ways to one node: the first of its addresses of each family. A
// virtual IP is no address of a node, and a family that this host does not have
// leads nowhere.
func ways(v state.NetworkView, node string, addresses []netip.Addr) []Backend {
	var out []Backend
	for _, v4 := range families(v) {
		i := slices.IndexFunc(addresses, func(a netip.Addr) bool {
			return a.Unmap().Is4() == v4 && !a.IsLinkLocalUnicast() && !slices.Contains(v.Settings.VIPs(), a.Unmap())
		})
		if i >= 0 {
			out = append(out, Backend{Node: node, Addr: addresses[i].Unmap(), Backup: len(out) > 0})
		}
	}
	return out
}

// families returns the families by which this host reaches others, true for IPv4,
// that of the first API VIP first.
func families(v state.NetworkView) []bool {
	first := len(v.Settings.APIVIPs) == 0 || v.Settings.APIVIPs[0].Unmap().Is4()
	own := func(v4 bool) bool {
		return len(v.Host.Addresses) == 0 ||
			slices.ContainsFunc(v.Host.Addresses, func(a netip.Addr) bool { return a.Unmap().Is4() == v4 })
	}
	return slices.DeleteFunc([]bool{first, !first}, func(v4 bool) bool { return !own(v4) })
}

// Families returns the families on which the load balancer has to listen.
func Families(v state.NetworkView) (v4, v6 bool) {
	for _, a := range append(v.Settings.VIPs(), v.Host.Addresses...) {
		v4, v6 = v4 || a.Unmap().Is4(), v6 || !a.Unmap().Is4()
	}
	return v4, v6
}
