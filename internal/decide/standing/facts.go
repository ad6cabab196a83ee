// Package standing says in words where a cluster stands: what its hosts are,
// whether it would survive the loss of one and why not, how far that is proven,
// who holds the virtual IPs, what is wrong, what that means and what to type
// next. It decides nothing and looks nothing up: what was gathered, from the API
// or from hosts without one, comes as Facts, and goes as a View to a terminal, a
// program or the dashboard.
//
// A fact that no source could provide is shown as unknown; it is never treated
// as healthy.
package standing

import (
	"net/netip"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen is a fact with who said it and when. Its zero value is unknown.
type Seen[T any] struct {
	Known bool
	Value T
	// From is who said it: "API", or a host's name.
	From string
	// At is when it was so, zero where that is not told.
	At time.Time
	// Why says why it is unknown, empty where nothing more can be said.
	Why string
}

// Know makes a fact that was told.
func Know[T any](value T, from string, at time.Time) Seen[T] {
	return Seen[T]{Known: true, Value: value, From: from, At: at}
}

// Facts is everything that was gathered about a cluster.
type Facts struct {
	Now time.Time
	// Cluster is its name, empty where nobody told it.
	Cluster string
	Sources []Source
	// ControlPlanes is the number of control planes that the site is made of.
	ControlPlanes Seen[int]
	// MastersSchedulable is whether control planes are workers too.
	MastersSchedulable Seen[bool]
	// Nodes are the names of the Nodes that the API has.
	Nodes Seen[[]string]
	// Missing are objects of the cluster's own that the API does not have.
	Missing Seen[[]Object]
	Hosts   []Host
	// Pacemaker is what the hosts report of Pacemaker, of two control planes only.
	// Its At is when they looked last.
	Pacemaker Seen[etcdv1.PacemakerClusterStatus]
	// SetUp is how far two control planes are with the hand-over of etcd.
	SetUp Seen[SetUp]
	// ManagedVIPs is whether hosts hold the virtual IPs, or the site's load balancer.
	ManagedVIPs Seen[bool]
	VIPs        []VIP
	// Operators are the ClusterOperators that are not well.
	Operators Seen[[]Operator]
	// Incidents are the last ones, the newest first.
	Incidents Seen[[]Incident]
}

// SourceKind is what kind of place facts are from.
type SourceKind string

// The kinds of sources.
const (
	FromAPI  SourceKind = "api"
	FromHost SourceKind = "host" // files and daemons of a host, as they are without an API
	FromLab  SourceKind = "lab"
)

// Source is a place that was asked.
type Source struct {
	Kind SourceKind
	// Name is the address of the API, or the host.
	Name string
	// Failed says why it told nothing, empty where it answered.
	Failed string
	// Limits are what it could not tell, one sentence each.
	Limits []string
	// Took is how long the answer took.
	Took time.Duration
}

// Power is the power of a host.
type Power string

// What is said of the power of a host.
const (
	PowerOn  Power = "on"
	PowerOff Power = "off"
)

// Host is what is known of one host.
type Host struct {
	Name         string
	ControlPlane bool
	Worker       bool
	Addresses    []netip.Addr
	Power        Seen[Power]
	Kubelet      Seen[Kubelet]
	// Record is the host's own of the two-node protocol.
	Record Seen[state.EtcdRecord]
	Member Seen[Member]
	// Explanation is what its agent of etcd says it does, of two hosts only.
	Explanation Seen[explain.Explanation]
	// LastFence is the last fence of this host.
	LastFence Seen[Fence]
	// Verified is when it was last proven that this host can be fenced.
	Verified Seen[Verification]
	// Holds are the virtual IPs that its interfaces have.
	Holds Seen[[]netip.Addr]
	// Registered is whether the API has its Node, as a host has it.
	Registered Seen[bool]
	// Labels are those of its Node.
	Labels Seen[map[string]string]
	// Peers are whom it shares its part of the API with, of a control plane.
	Peers Seen[state.PeerReport]
	// Firewalls are those of the site that work on it.
	Firewalls Seen[[]state.SiteFirewall]
	// Trouble is what keeps its network from being set up, empty for nothing.
	Trouble Seen[string]
	// Loops are how those of its agent are doing that are not of its network.
	Loops Seen[[]state.Loop]
}

// Kubelet is a kubelet as the API knows it.
type Kubelet struct {
	Ready bool
	// Why is what it says where it is not ready.
	Why string
	// Since is when that last changed.
	Since time.Time
	// Cordoned is true where no new pods may come.
	Cordoned bool
}

// Member is a host's member of etcd.
type Member struct {
	// Running is unknown where only others speak of the member.
	Running state.Fact[bool]
	Listed  state.Fact[bool]
	Learner bool
	Leader  bool
	// Healthy is false where it runs and does not serve.
	Healthy state.Fact[bool]
	// Behind is by how many entries it is behind the leader.
	Behind state.Fact[uint64]
}

// Fence is a fence that was tried.
type Fence struct {
	At   time.Time
	By   string
	Off  bool
	Took time.Duration // zero where it was not told
	Why  string
}

// Verification is a proof that a host can be fenced.
type Verification struct {
	At  time.Time
	By  string
	How string        // "its BMC answered", "it was fenced"
	In  time.Duration // how long a fence took, zero where none was measured
}

// SetUp is how far two control planes are with Pacemaker and etcd.
type SetUp struct {
	Done  bool
	Doing string
}

// VIP is one virtual IP.
type VIP struct {
	Address netip.Addr
	// Kind is "API" or "ingress".
	Kind string
	// Holders are the hosts that say that they have it, by name: Merge makes them
	// of what the hosts hold.
	Holders Seen[[]string]
	// Claims are strangers that answer for it, Left hosts that answer for it and
	// announce it to nobody, by name.
	Claims, Left []string
	// Forged are adverts for it that no host sent: "MAC in the name of ADDRESS".
	Forged []string
}

// Object is an object that should be there.
type Object struct{ Kind, Namespace, Name string }

// Operator is a ClusterOperator that is not well.
type Operator struct{ Name, State, Why string }

// Incident is a take-over, or a return, in one line. The whole report is another
// package's (decide/incident).
type Incident struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // how far it is: under-way, waits-for-a-person, over
	Summary string    `json:"summary"`
}
