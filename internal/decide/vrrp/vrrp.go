// Package vrrp decides which virtual IPs a host takes part in holding, with which
// peers and with which priority. It decides from the view of the host's network
// only. Where the view does not tell enough, it leaves things as they are.
package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Kind is the purpose of a virtual IP.
type Kind string

// The kinds. Their values are the names of their track files.
const (
	API     Kind = "api"
	Ingress Kind = "ingress"
)

// Base priorities, before weights are added. The sums stay in the order that
// docs/facts/network.md#weights gives: bootstrap over a control plane at its best.
const (
	APIPriority     = 40
	IngressPriority = 20
)

// Instance is one VRRP instance: one virtual IP.
type Instance struct {
	// Name is unique on the host: <cluster>_API_<i> or <cluster>_INGRESS_<i>.
	Name string
	Kind Kind
	VIP  netip.Addr
	// Interface carries the adverts: it has Source. Device carries the VIP.
	Interface, Device string
	// Source is this host's own address of the VIP's family.
	Source netip.Addr
	// Peers are the other hosts' addresses of that family, in order; empty on a
	// host that is alone.
	Peers []netip.Addr
	// RouterID is the VRRP virtual router id, 1 to 255.
	RouterID uint8
	// Priority is the base priority.
	Priority int
}

// Verdict describes what a host takes part in.
type Verdict struct {
	// Known is false where the view does not tell enough: then everything stays as
	// it is.
	Known bool
	// Why gives the reason in one line.
	Why       string
	Instances []Instance
	// Undecided are the VIPs of which nothing is known at the moment: their instances stay as they
	// are (After).
	Undecided []netip.Addr
	// Sync is true where the VIPs of one kind move together.
	Sync bool
}

// After returns the verdict with the instances of before for the VIPs that are undecided.
func (v Verdict) After(before Verdict) Verdict {
	v.Instances = slices.Clone(v.Instances)
	for _, i := range before.Instances {
		if slices.Contains(v.Undecided, i.VIP) {
			v.Instances = append(v.Instances, i)
		}
	}
	slices.SortFunc(v.Instances, func(a, b Instance) int { return strings.Compare(a.Name, b.Name) })
	return v
}

func keep(why string) Verdict { return Verdict{Why: why} }
func none(why string) Verdict { return Verdict{Known: true, Why: why} }

// Bootstrapping reports whether this host brings the cluster up: it then holds the
// API VIPs whatever other hosts say, and needs no list of nodes for that.
func Bootstrapping(v state.NetworkView) bool {
	return v.Role == state.RoleBootstrap && v.Stage != state.StageInstalled
}

// Instances decides in which VIPs a host takes part. It decides nothing from a list
// of nodes that is unknown or empty: a failed look-up must never turn a holder into
// one of many (B1), nor make a host that nobody knows a holder (B4).
func Instances(v state.NetworkView) Verdict {
	s := v.Settings
	switch {
	case s.Cluster == "":
		return keep("the cluster's settings are not yet known")
	case !s.ManagedVIPs || len(s.VIPs()) == 0:
		return none("this cluster's hosts hold no VIP")
	case state.Is(v.MayHold, false):
		return none("this host must not hold a VIP")
	case Bootstrapping(v):
		return bootstrap(v)
	case v.Stage != state.StageReady && v.Stage != state.StageInstalled:
		return none("this host is not ready yet")
	case !v.Nodes.Known || len(v.Nodes.Value) == 0:
		return keep("the nodes are unknown")
	}
	self, listed := v.Self()
	if !listed {
		return none("the cluster does not list this host")
	}
	if v.Role == state.RoleWorker && remote(v) {
		return none("this host is on another network than the VIPs")
	}
	return member(v, self)
}

// bootstrap takes part in the API VIPs with whatever nodes there are.
func bootstrap(v state.NetworkView) Verdict {
	if len(v.Host.Addresses) == 0 {
		return keep("this host's own addresses are not yet known")
	}
	self := state.Node{Name: v.Host.NodeName, Addresses: v.Host.Addresses}
	b := newBuilder(v)
	b.add(API, v.Settings.APIVIPs, self, controlPlanes(v.Nodes.Value))
	if listed, ok := v.Self(); ok { // for an ingress VIP other hosts must know this one
		b.add(Ingress, v.Settings.IngressVIPs, listed, v.Nodes.Value)
	}
	return b.verdict("this host bootstraps the cluster")
}

// member takes part in the VIPs that the role of a listed host allows.
func member(v state.NetworkView, self state.Node) Verdict {
	b := newBuilder(v)
	if masters := controlPlanes(v.Nodes.Value); controlPlane(self) {
		if len(masters) < 2 && v.Settings.ControlPlanes > 1 && v.Stage != state.StageInstalled {
			return keep("the other control planes are not listed yet") // B3
		}
		b.add(API, v.Settings.APIVIPs, self, masters)
	}
	b.add(Ingress, v.Settings.IngressVIPs, self, v.Nodes.Value)
	return b.verdict(fmt.Sprintf("%d nodes, %d control planes", len(v.Nodes.Value), len(controlPlanes(v.Nodes.Value))))
}

// controlPlane reads both labels: kubeadm sets one, and the specifications' tools
// select by the other.
func controlPlane(n state.Node) bool {
	_, master := n.Labels[state.LabelMaster]
	return master || n.ControlPlane()
}

func controlPlanes(nodes []state.Node) []state.Node {
	var out []state.Node
	for _, n := range nodes {
		if controlPlane(n) {
			out = append(out, n)
		}
	}
	return out
}
