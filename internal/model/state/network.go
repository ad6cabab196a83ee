package state

import "net/netip"

// NetworkSettings is what a cluster says about its own network. It comes with
// the site's configuration, is replaced by the Infrastructure object once the
// API shows it, and the last one is kept on disk.
type NetworkSettings struct {
	// Cluster is the cluster's name, Domain its name and base domain.
	Cluster string `json:"cluster"`
	Domain  string `json:"domain"`
	// ManagedVIPs is true where hosts hold the virtual IPs; else a load
	// balancer of the site does, and the lists below are empty.
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
	// ControlPlanes is the number of control planes that the site is made of.
	ControlPlanes int `json:"controlPlanes"`
	// Fencing is true on two control planes that switch each other off.
	Fencing bool `json:"fencing,omitempty"`
	// RouterIDs are the VRRP virtual router ids, 0 for what follows from the
	// cluster's name.
	RouterIDs RouterIDs `json:"routerIDs,omitzero"`
	// SyncFamilies is true where the VIPs of one kind are always on one host.
	SyncFamilies bool `json:"syncFamilies,omitempty"`
}

// RouterIDs are the VRRP virtual router ids of a cluster, 1 to 255 each.
type RouterIDs struct {
	API     uint8 `json:"api,omitempty"`
	Ingress uint8 `json:"ingress,omitempty"`
}

// VIPs are all virtual IPs of the cluster.
func (s NetworkSettings) VIPs() []netip.Addr {
	return append(append([]netip.Addr(nil), s.APIVIPs...), s.IngressVIPs...)
}

// NetworkStage is how far a host's installation is, as far as its part in the
// network depends on it.
type NetworkStage string

// The stages, in their order.
const (
	// StageInstalling: nobody may count on this host yet.
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
	// Usable is false for an address that the kernel still checks (tentative),
	// has found taken, or is phasing out (deprecated).
	Usable bool `json:"usable"`
	// Label is the address's label, empty where it is the interface's name.
	Label string `json:"label,omitempty"`
}

// HostRoute is one route of a host's main table.
type HostRoute struct {
	// Destination is the whole family for a default route.
	Destination netip.Prefix `json:"destination"`
	// Gateway is invalid on a link.
	Gateway   netip.Addr `json:"gateway,omitzero"`
	Interface string     `json:"interface"`
	Index     int        `json:"index"`
	Metric    int        `json:"metric"`
	// Advertised is true for a route from a router advertisement.
	Advertised bool `json:"advertised,omitempty"`
}

// NetworkView is everything that the network of one host depends on, gathered
// in one value. The pieces of the agent decide from it and from nothing else.
type NetworkView struct {
	Settings NetworkSettings `json:"settings"`
	Role     Role            `json:"role"`
	Stage    NetworkStage    `json:"stage"`
	// Host is this host's name and its own addresses; HostFacts.Addresses is
	// empty until they are found.
	Host HostFacts `json:"host"`
	// Addresses and Routes are all that the kernel has.
	Addresses []HostAddress `json:"addresses,omitempty"`
	Routes    []HostRoute   `json:"routes,omitempty"`
	// Hardware are, by interface with an address, the hardware addresses that its
	// packets may come from: several where it is a bond's.
	Hardware map[string][]string `json:"hardware,omitempty"`
	// Nodes are unknown until a whole list was had, in this run or, from the
	// disk, in an earlier one. A failed or partial look leaves them as they are.
	Nodes Fact[[]Node] `json:"nodes"`
	// Stale is true while Nodes are those of the disk.
	Stale bool `json:"stale,omitempty"`
	// LocalAPI is whether this host's own API server says that it is ready.
	LocalAPI Fact[bool] `json:"localAPI"`
	// Balancer is what haproxy on this host says, unknown where none answers.
	Balancer Fact[Balancer] `json:"balancer"`
	// Redirected is whether the API VIPs' port leads to haproxy.
	Redirected bool `json:"redirected,omitempty"`
	// Router is whether a ready router runs on this host.
	Router Fact[Router] `json:"router"`
	// MayHold is false where a two-node host must hold no VIP: it is inert, or
	// was fenced, or its side has no quorum. Unknown, it holds on to what it has.
	MayHold Fact[bool] `json:"mayHold"`
	// LocalDNS is whether this host's own name server answers.
	LocalDNS Fact[bool] `json:"localDNS"`
	// Reachable is, by node name, whether a control plane answers at all, at
	// the level of connections: one that refuses them does. Only the others are
	// in it, and only while the balancer finds one of them not live.
	Reachable Fact[map[string]bool] `json:"reachable"`
	// Claims are what was last heard about this cluster's VIPs that should not
	// be: who else holds one, or sends adverts about one.
	Claims []VIPClaim `json:"claims,omitempty"`
	// Forged are the adverts that were last heard and that no host of this
	// cluster sends.
	Forged []ForgedAdvert `json:"forged,omitempty"`
	// SiteFirewalls are the firewalls of the site that work on this host.
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

// VIPClaim is a claim to a virtual IP that should not be.
type VIPClaim struct {
	// VIP is invalid where somebody else only sends adverts about it.
	VIP netip.Addr `json:"vip,omitzero"`
	// By is the claimant's address, network or hardware.
	By string `json:"by"`
	// RouterID is set where adverts with that id, about a virtual IP of this
	// cluster, came from no peer.
	RouterID uint8 `json:"routerID,omitempty"`
	// Host is the node whose address it is, empty for a stranger. One that answers
	// for the VIP sends no adverts, so nothing on it keeps the VIP; one that sends
	// adverts may never hold what they are about.
	Host string `json:"host,omitempty"`
}

// ForgedAdvert is an advert in the name of a host that did not send it.
type ForgedAdvert struct {
	VIP netip.Addr `json:"vip"`
	// As is the address of the host in whose name it came, By the hardware
	// address that it came from.
	As netip.Addr `json:"as"`
	By string     `json:"by"`
	// Excess is set where it has a higher priority than any host can have.
	Excess bool `json:"excess,omitempty"`
}

// Balancer is what a haproxy says about the API servers behind it.
type Balancer struct {
	// Backends are the API servers by node name, true where one takes requests.
	Backends map[string]bool `json:"backends"`
	// Reached are the API servers, by node name, that at least take connections: one that is
	// overloaded, or on its way out, is reached and takes no new requests.
	Reached map[string]bool `json:"reached,omitempty"`
	// Stranded are the API servers, by their names in the load balancer, that have connections
	// which lead nowhere any more.
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

// Router is what a host's own router says.
type Router struct {
	// Healthy is false where it does not even serve what it has.
	Healthy bool `json:"healthy"`
	// Ready is false too while it drains.
	Ready bool `json:"ready"`
	// Default is true for a router of the default IngressController.
	Default bool `json:"default"`
}
