package state

import "net/netip"

// NetworkSettings holds a cluster's settings of its own network. They come with
// the site's configuration; the Infrastructure object replaces them once the API
// shows it, and the last ones are kept on disk.
type NetworkSettings struct {
	// Cluster is the cluster's name, Domain its name and base domain.
	Cluster string `json:"cluster"`
	Domain  string `json:"domain"`
	// ManagedVIPs is true if hosts hold the virtual IPs; else a load balancer of
	// the site does, and the lists below are empty.
	ManagedVIPs bool         `json:"managedVIPs"`
	APIVIPs     []netip.Addr `json:"apiVIPs,omitempty"`
	IngressVIPs []netip.Addr `json:"ingressVIPs,omitempty"`
	// MachineNetworks are the networks of the hosts.
	MachineNetworks []netip.Prefix `json:"machineNetworks,omitempty"`
	// PodNetworks and ServiceNetworks are the site's for the life of the cluster.
	PodNetworks     []netip.Prefix `json:"podNetworks,omitempty"`
	ServiceNetworks []netip.Prefix `json:"serviceNetworks,omitempty"`
	// NameClients are further networks that may ask the hosts' name servers.
	NameClients []netip.Prefix `json:"nameClients,omitempty"`
	// ControlPlanes is the number of the site's control planes.
	ControlPlanes int `json:"controlPlanes"`
	// Fencing is true on two control planes that switch each other off.
	Fencing bool `json:"fencing,omitempty"`
	// RouterIDs are the VRRP virtual router ids; 0 stands for the one derived from
	// the cluster's name.
	RouterIDs RouterIDs `json:"routerIDs,omitzero"`
	// SyncFamilies is true if the VIPs of one kind must always be on one host.
	SyncFamilies bool `json:"syncFamilies,omitempty"`
}

// RouterIDs are the VRRP virtual router ids of a cluster, 1 to 255 each.
type RouterIDs struct {
	API     uint8 `json:"api,omitempty"`
	Ingress uint8 `json:"ingress,omitempty"`
}

// VIPs returns all virtual IPs of the cluster.
func (s NetworkSettings) VIPs() []netip.Addr {
	return append(append([]netip.Addr(nil), s.APIVIPs...), s.IngressVIPs...)
}

// NetworkStage is the progress of a host's installation, as far as its part in
// the network depends on it.
type NetworkStage string

// The stages, in their order.
const (
	// StageInstalling: no other host may count on this one yet.
	StageInstalling NetworkStage = "installing"
	// StageReady: the node is ready and the others know it.
	StageReady NetworkStage = "ready"
	// StageInstalled: the whole cluster stands.
	StageInstalled NetworkStage = "installed"
)

// HostAddress is one address of a host.
type HostAddress struct {
	Interface string `json:"interface"`
	// Index is the kernel's number of the interface.
	Index  int          `json:"index"`
	Prefix netip.Prefix `json:"prefix"`
	// Usable is false for an address that the kernel still checks (tentative), has
	// found taken, or is phasing out (deprecated).
	Usable bool `json:"usable"`
	// Label is the address's label, empty if it is the interface's name.
	Label string `json:"label,omitempty"`
}

// HostRoute is one route of a host's main table.
type HostRoute struct {
	// Destination is the whole family for a default route.
	Destination netip.Prefix `json:"destination"`
	// Gateway is invalid for a route on a link.
	Gateway   netip.Addr `json:"gateway,omitzero"`
	Interface string     `json:"interface"`
	Index     int        `json:"index"`
	Metric    int        `json:"metric"`
	// Advertised is true for a route from a router advertisement.
	Advertised bool `json:"advertised,omitempty"`
}

// NetworkView holds everything that the network of one host depends on, in one
// value. The reconcilers of the agent decide from it and from nothing else.
type NetworkView struct {
	Settings NetworkSettings `json:"settings"`
	Role     Role            `json:"role"`
	Stage    NetworkStage    `json:"stage"`
	// Host holds this host's name and its own addresses; HostFacts.Addresses is
	// empty until they are found.
	Host HostFacts `json:"host"`
	// Addresses and Routes hold all those of the kernel.
	Addresses []HostAddress `json:"addresses,omitempty"`
	Routes    []HostRoute   `json:"routes,omitempty"`
	// Hardware maps each interface with an address to the hardware addresses from
	// which its packets may come: several for a bond.
	Hardware map[string][]string `json:"hardware,omitempty"`
	// Nodes is unknown until a whole list was read, in this run or, from the disk,
	// in an earlier one. A failed or partial read leaves it as it is.
	Nodes Fact[[]Node] `json:"nodes"`
	// Stale is true while Nodes come from the disk.
	Stale bool `json:"stale,omitempty"`
	// LocalAPI is true if this host's own API server reports that it is ready.
	LocalAPI Fact[bool] `json:"localAPI"`
	// Balancer is the report of haproxy on this host, unknown if it does not
	// answer.
	Balancer Fact[Balancer] `json:"balancer"`
	// Redirected is true if the API VIPs' port leads to haproxy.
	Redirected bool `json:"redirected,omitempty"`
	// Router is the state of the router on this host.
	Router Fact[Router] `json:"router"`
	// MayHold is false if a two-node host must hold no VIP: it is inert, or was
	// fenced, or its side has no quorum. While it is unknown the host keeps what it
	// has.
	MayHold Fact[bool] `json:"mayHold"`
	// Announces is true while this host is about to boot: it says that it will give its
	// VIPs away. Leaving is true a moment later: it gives them away before its processes
	// end.
	Announces bool `json:"announces,omitempty"`
	Leaving   bool `json:"leaving,omitempty"`
	// LocalDNS is true if this host's own name server answers.
	LocalDNS Fact[bool] `json:"localDNS"`
	// Reachable says, by node name, whether a control plane answers at all, at the
	// level of connections: one that refuses them answers. It holds only the other
	// control planes, and only those that the balancer does not find live.
	Reachable Fact[map[string]bool] `json:"reachable"`
	// Claims are the latest claims to this cluster's VIPs that should not exist:
	// another host holds one, or sends adverts about one.
	Claims []VIPClaim `json:"claims,omitempty"`
	// Forged holds the latest adverts that no host of this cluster has sent.
	Forged []ForgedAdvert `json:"forged,omitempty"`
	// SiteFirewalls are the firewalls of the site that are active on this host.
	SiteFirewalls Fact[[]SiteFirewall] `json:"siteFirewalls"`
	// Upstreams are the site's name servers, in order, without this host.
	Upstreams []netip.AddrPort `json:"upstreams,omitempty"`
}

// Self returns this host's own node, and whether the cluster lists it.
func (v NetworkView) Self() (Node, bool) {
	for _, n := range v.Nodes.Value {
		if n.Name == v.Host.NodeName {
			return n, v.Nodes.Known
		}
	}
	return Node{}, false
}

// VIPClaim is a claim to a virtual IP that should not exist.
type VIPClaim struct {
	// VIP is invalid if the claimant only sends adverts about it.
	VIP netip.Addr `json:"vip,omitzero"`
	// By is the claimant's address, network or hardware.
	By string `json:"by"`
	// RouterID is set if adverts with that id, about a virtual IP of this cluster,
	// came from a host that is no peer.
	RouterID uint8 `json:"routerID,omitempty"`
	// Host is the node with that address, empty for a foreign host. A node that
	// answers for the VIP sends no adverts, so nothing on it keeps the VIP; a node
	// that sends adverts may not hold the VIPs in them.
	Host string `json:"host,omitempty"`
}

// ForgedAdvert is an advert in the name of a host that did not send it.
type ForgedAdvert struct {
	VIP netip.Addr `json:"vip"`
	// As is the address of the host in whose name the advert came, By the hardware
	// address of its sender.
	As netip.Addr `json:"as"`
	By string     `json:"by"`
	// Excess is set if its priority is higher than any host can have.
	Excess bool `json:"excess,omitempty"`
}

// Balancer holds haproxy's report about the API servers behind it.
type Balancer struct {
	// Backends says for each API server, by node name, whether it takes requests.
	Backends map[string]bool `json:"backends"`
	// Reached says for each API server, by node name, whether it at least takes
	// connections: one that is overloaded, or on its way out, is reached but takes
	// no new requests.
	Reached map[string]bool `json:"reached,omitempty"`
	// Stranded lists the API servers, by their names in the balancer, with
	// connections that lead nowhere any more.
	Stranded []string `json:"stranded,omitempty"`
}

// Live counts the backends that take requests.
func (b Balancer) Live() int {
	n := 0
	for _, up := range b.Backends {
		if up {
			n++
		}
	}
	return n
}

// Router holds the report of a host's own router.
type Router struct {
	// Healthy is false if it does not even serve its present configuration.
	Healthy bool `json:"healthy"`
	// Ready is false also while it drains.
	Ready bool `json:"ready"`
	// Default is true for a router of the default IngressController.
	Default bool `json:"default"`
}
