// Package ports holds the one table of the ports of a host: which program
// listens, on which hosts, and who may connect. From it come the rules of our
// own nftables table (Decide), the page docs/ports.md, the commands that open a
// firewall of the site, and the judgement of one (Refused).
package ports

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Protocol is the protocol of a port.
type Protocol string

// The protocols. VRRP has no ports.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	VRRP Protocol = "vrrp"
)

// Where names the hosts that listen.
type Where string

// The hosts that listen.
const (
	Every    Where = "every host"
	Controls Where = "control planes"
	Pair     Where = "two control planes with fencing"
	Routers  Where = "hosts with a router"
	Flannel  Where = "every host, with the pod network Flannel"
	Holders  Where = "hosts that may hold a virtual IP"
)

// From names the hosts that may connect.
type From string

// The values of From. Our own rules enforce all of them but Anybody and the last
// two.
const (
	Anybody   From = "anyone"
	NoPods    From = "anyone but pods"
	Planes    From = "control planes"
	Hosts     From = "hosts of the cluster"
	Machines  From = "the machine networks"
	Neighbour From = "peers on the same network" // enforced by the nftables table for adverts, or by the listener itself
	Itself    From = "the host itself"           // it listens on a loopback address
)

// Programs with ports that a firewall of the site need not let in.
const (
	sshd      = "sshd"
	pcsd      = "pcsd"
	kubeProxy = "kube-proxy"
)

// Port is one line of the table: a port, or the ports from First to Last.
type Port struct {
	First, Last uint16
	Protocols   []Protocol
	// Who names the program that listens. For names its purpose, empty if that is
	// clear.
	Who, For string
	On       Where
	From     From
	// Proof is what the listener itself demands from a client.
	Proof string
	// Why explains why these hosts may connect, and no others.
	Why string
}

// The protocols of a line.
var (
	tcp  = []Protocol{TCP}
	udp  = []Protocol{UDP}
	both = []Protocol{TCP, UDP}
	vrrp = []Protocol{VRRP}
)

// The demands of listeners.
const (
	none   = "none"
	theirs = "the application's"
	yesNo  = "a yes or no, for hosts and monitoring"
)

// Other packages hold the constants of the ports that they listen on; a test
// compares the table with them.
var table = []Port{
	{0, 0, vrrp, "keepalived", "", Holders, Neighbour, "none: source and hops are compared", "the nftables table `holdfast_vrrp` drops adverts of other hosts"},
	{22, 22, tcp, sshd, "", Every, Anybody, "as the distribution configures it", "no rule of Holdfast names it, so that an administrator always gets in"},
	{53, 53, both, "CoreDNS", "the host's name server", Every, Anybody, none, "hosts and pods query it, and the networks that the site names"},
	{80, 80, tcp, "routers", "HTTP", Routers, Anybody, theirs, "clients reach applications here"},
	{443, 443, tcp, "routers", "HTTPS", Routers, Anybody, theirs, "clients reach applications here"},
	{1936, 1936, tcp, "routers", "health and metrics", Routers, Anybody, none, "load balancers of the site and monitoring query it"},
	{2224, 2224, tcp, pcsd, "", Pair, Planes, "a token, over unverified TLS", "Holdfast does not use it"},
	{2379, 2380, tcp, "etcd", "", Controls, Planes, "mutual TLS, with its own authority", "no other host has a certificate"},
	{2381, 2381, tcp, "etcd", "metrics", Controls, Itself, none, ""},
	{state.RacePort, state.RacePort, tcp, "the etcd keeper", "", Pair, NoPods, "mutual TLS, for the peer's name", "in a network cut the hosts ask each other which one gives way, over any network and from any address"},
	{5353, 5353, udp, "the agent", "multicast DNS", Every, Neighbour, "none: hops are compared", "the API's names are never taken from it"},
	{5405, 5412, udp, "Corosync", "a port for each link", Pair, Planes, "a key that the two share", "no other host has the key"},
	{6443, 6443, tcp, "the API server", "", Controls, Anybody, "certificates and tokens", "administrators, hosts and pods use it"},
	{8472, 8472, udp, "VXLAN", "the pod network", Flannel, Hosts, none, "anyone who reaches it can put packets into the pod network"},
	{9444, 9444, tcp, "haproxy", "readiness", Controls, Machines, none, yesNo},
	{9445, 9445, tcp, "haproxy", "the API servers", Controls, Anybody, "the API server's", "traffic to the API's virtual IPs is sent there"},
	{9454, 9454, tcp, "haproxy", "health of the API", Controls, Machines, none, yesNo},
	{10248, 10248, tcp, "kubelet", "health", Every, Itself, none, ""},
	{10249, 10249, tcp, kubeProxy, "metrics", Every, Itself, none, ""},
	{10250, 10250, tcp, "kubelet", "", Every, Anybody, "certificates and tokens, which the API server verifies", "API servers use it, and pods that collect metrics"},
	{10256, 10256, tcp, kubeProxy, "health", Every, Anybody, none, "load balancers of the site query it"},
	{10257, 10257, tcp, "kube-controller-manager", "", Controls, Itself, "tokens", ""},
	{10259, 10259, tcp, "kube-scheduler", "", Controls, Itself, "tokens", ""},
	{10270, 10270, tcp, "holdfast-operator", "health", Controls, Itself, none, ""},
	{10272, 10272, tcp, "holdfast-operator", "metrics", Controls, Itself, none, ""},
	{18080, 18080, tcp, "CoreDNS", "health", Every, Machines, none, yesNo},
	{22623, 22623, tcp, "the configuration server", "", Controls, NoPods, "a join secret, or the key of a worker's expired certificate", "a host of any network may join; a pod is not a host"},
	{29445, 29445, tcp, "haproxy", "statistics", Controls, Itself, none, ""},
	{29446, 29446, tcp, "the agent", "metrics", Every, Itself, none, ""},
	{firstNodePort, lastNodePort, both, "Services", "node ports", Every, Anybody, theirs, "clients reach applications here"},
}

// The range of ports for Services of type NodePort.
const firstNodePort, lastNodePort = 30000, 32767

// Table returns the lines of the table, ordered by port.
func Table() []Port { return slices.Clone(table) }

// Owner returns the program that listens at a TCP port of hosts, empty for none.
// It ignores the ports of routers and of Services, because a router may have
// them.
func Owner(port int32) string {
	for _, p := range table {
		if p.On != Routers && p.First != firstNodePort && p.has(TCP) && int32(p.First) <= port && port <= int32(p.Last) {
			return p.Who
		}
	}
	return ""
}

func (p Port) has(protocol Protocol) bool { return slices.Contains(p.Protocols, protocol) }

// number returns the port, or the range of ports, as firewalls write it.
func (p Port) number(to string) string {
	if p.First == p.Last {
		return fmt.Sprint(p.First)
	}
	return fmt.Sprintf("%d%s%d", p.First, to, p.Last)
}

// foreign reports whether clients outside of the host may connect.
func (p Port) foreign() bool { return p.From != Itself }

// closedToPods reports whether pods may not connect.
func (p Port) closedToPods() bool {
	switch p.From {
	case NoPods, Planes, Hosts, Machines:
		return true
	case Anybody, Neighbour, Itself:
	}
	return false
}

// Kind holds the properties of a host that its ports depend on.
type Kind struct {
	ControlPlane, Fencing, Flannel bool
}

// listens reports whether a host of that kind has the port. Whether it has a
// router, or may hold a virtual IP, can change, so every host counts as one that
// may.
func (k Kind) listens(p Port) bool {
	switch p.On {
	case Controls:
		return k.ControlPlane
	case Pair:
		return k.ControlPlane && k.Fencing
	case Flannel:
		return k.Flannel
	case Every, Routers, Holders:
	}
	return true
}

// of returns the ports of a host to which others may connect.
func of(k Kind) []Port {
	return slices.DeleteFunc(Table(), func(p Port) bool { return !p.foreign() || !k.listens(p) })
}
