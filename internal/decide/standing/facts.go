// Package standing describes the state of a cluster in words: its hosts,
// whether it would survive the loss of one and why not, how far that is proven,
// who holds the VIPs, what is wrong, what that means and what to type next. It
// decides nothing and looks nothing up. It gets Facts, which were gathered from
// the API, or from hosts if there is no API, and makes a View for a terminal, a
// program or the dashboard.
//
// A fact that no source could provide is shown as unknown; it is never treated
// as healthy.
package standing

import (
	"net/netip"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen is a fact with its source and time. Its zero value is unknown.
type Seen[T any] = state.Seen[T]

// Know makes a known fact.
func Know[T any](value T, from string, at time.Time) Seen[T] { return state.See(value, from, at) }

// Facts holds everything that was gathered about a cluster.
type Facts struct {
	Now time.Time
	// Cluster is the cluster's name, empty if no source told it.
	Cluster string
	Sources []Source
	// ControlPlanes is the number of control planes that the site has.
	ControlPlanes Seen[int]
	// MastersSchedulable reports whether control planes are workers too.
	MastersSchedulable Seen[bool]
	// Nodes lists the names of the Nodes in the API.
	Nodes Seen[[]string]
	// Missing lists objects that belong to the cluster itself and that the API
	// lacks.
	Missing Seen[[]Object]
	// Retired says, by the names of hosts, who took each out of the cluster.
	Retired Seen[map[string]string]
	Hosts   []Host
	// Pacemaker is the hosts' report on Pacemaker; only two control planes have
	// one. Its At is the time of their last look at Pacemaker.
	Pacemaker Seen[etcdv1.PacemakerClusterStatus]
	// SetUp is the progress of the hand-over of etcd, on two control planes.
	SetUp Seen[SetUp]
	// Heartbeat is when a kubelet last renewed a Lease of its node, of all nodes: with the API alone, the
	// newest thing that hosts are known to have written. They write one each 10 s.
	Heartbeat Seen[time.Time]
	// ManagedVIPs reports whether the hosts hold the VIPs, instead of a load
	// balancer of the site.
	ManagedVIPs Seen[bool]
	VIPs        []VIP
	// Operators lists the ClusterOperators that are not healthy.
	Operators Seen[[]Operator]
	// OwnOperator is holdfast-operator itself.
	OwnOperator Seen[OwnOperator]
	// Pools lists the pools of machine configurations.
	Pools Seen[[]rollout.PoolState]
	// Incidents lists the last incidents, the newest first.
	Incidents Seen[[]Incident]
	// Upgrade is what the API has of an upgrade.
	Upgrade Seen[UpgradeObjects]
	// BackupProof is the last proof that a backup can be opened, zero if there was none.
	BackupProof Seen[backup.Proof]
	// Encryption is what is wished about the keys of secrets in etcd.
	Encryption Seen[encryption.Wish]
	// Lock is the plan that holds the lock of all plans, with an empty ID if none does. Announced are
	// plans that the cluster tells to all hosts.
	Lock      Seen[Plan]
	Announced Seen[[]Plan]
}

// SourceKind is the kind of place that facts come from.
type SourceKind string

// The kinds of sources.
const (
	FromAPI  SourceKind = "api"
	FromHost SourceKind = "host" // files and daemons of a host, which need no API
	FromLab  SourceKind = "lab"
)

// Source is a place that was asked for facts.
type Source struct {
	Kind SourceKind
	// Name is the address of the API, or the host.
	Name string
	// Failed says why it gave no facts, empty if it answered.
	Failed string
	// Limits says what it could not tell, one sentence each.
	Limits []string
	// Took is the time until the answer.
	Took time.Duration
}

// Power is the power state of a host.
type Power string

// The power states of a host.
const (
	PowerOn  Power = "on"
	PowerOff Power = "off"
)

// Host holds what is known of one host.
type Host struct {
	Name         string
	ControlPlane bool
	Worker       bool
	Addresses    []netip.Addr
	Power        Seen[Power]
	Kubelet      Seen[Kubelet]
	// Record is the host's own record of the two-node protocol.
	Record Seen[state.EtcdRecord]
	Member Seen[Member]
	// Explanation is what its etcd keeper says it does; with two control planes
	// only.
	Explanation Seen[explain.Explanation]
	// LastFence is the last fence of this host.
	LastFence Seen[Fence]
	// Verified is the last proof that this host can be fenced.
	Verified Seen[Verification]
	// Holds lists the VIPs that its interfaces have.
	Holds Seen[[]netip.Addr]
	// Registered reports whether the API has its Node, as far as a host knows.
	Registered Seen[bool]
	// Labels holds the labels of its Node.
	Labels Seen[map[string]string]
	// Peers lists the control planes with which this control plane shares the
	// API.
	Peers Seen[state.PeerReport]
	// Firewalls lists the site's firewalls that work on it.
	Firewalls Seen[[]state.SiteFirewall]
	// Deleted lists what somebody deleted on the host and nothing put back.
	Deleted Seen[[]state.Deleted]
	// Trouble says what prevents its network from being set up, empty for
	// nothing.
	Trouble Seen[string]
	// Loops are how those of its agent are doing that are not of its network.
	Loops Seen[[]state.Loop]
	// Config is what its Node says of its machine configuration.
	Config Seen[rollout.Host]
	// Release is what its Node says of the releases that lie and run there.
	Release Seen[people.Host]
	// Backup is the report of the host about its backups, from its Node.
	Backup Seen[backup.Host]
	// Space is its report about the space of etcd, from its agent or from its Node.
	Space Seen[etcdspace.Host]
	// Renewal is what its Node says of the renewal of its certificates.
	Renewal Seen[state.CertificateRenewal]
	// Authorities is what its Node says of the authorities that it trusts and signs by.
	Authorities Seen[rotation.Reports]
	// Keys is what its Node says of the keys of its API server, as encryption.Told writes it.
	Keys Seen[string]
	// Plans is what its Node says of plans in which it has a part.
	Plans Seen[[]PlanSaid]
}

// Kubelet is the state of a kubelet in the API.
type Kubelet struct {
	Ready bool
	// Silent is true if kubelet stopped reporting: its host may be off.
	Silent bool
	// Why is the kubelet's own reason if it is not ready.
	Why string
	// Since is the time of the last change of Ready.
	Since time.Time
	// Cordoned reports whether the node takes no new pods, and Moves whether that is
	// because the operator moves its pods.
	Cordoned, Moves bool
}

// Member is a host's member of etcd.
type Member struct {
	// Running is unknown if only others report on the member.
	Running state.Fact[bool]
	Listed  state.Fact[bool]
	Learner bool
	Leader  bool
	// Healthy is false if the member runs and does not serve.
	Healthy state.Fact[bool]
	// Strangers describes the members in this member's list that belong to no control
	// plane; Stranger is the id of the first. On two hosts under Pacemaker their own reports
	// say it.
	Strangers string
	Stranger  state.MemberID
	// Behind is the number of entries that the member lacks compared with the
	// leader.
	Behind state.Fact[uint64]
}

// Fence is an attempt to fence a host.
type Fence struct {
	At   time.Time
	By   string
	Off  bool
	Took time.Duration // zero if not told
	Why  string
}

// Verification is a proof that a host can be fenced.
type Verification struct {
	At  time.Time
	By  string
	How string        // "its BMC answered", "it was fenced"
	In  time.Duration // duration of the fence, zero if none was measured
}

// SetUp is the progress of setting up Pacemaker and etcd on two control planes.
type SetUp struct {
	Done  bool
	Doing string
}

// VIP is one virtual IP.
type VIP struct {
	Address netip.Addr
	// Kind is "API" or "ingress".
	Kind string
	// Holders lists, by name, the hosts that claim to hold it. Merge fills it
	// in from Host.Holds.
	Holders Seen[[]string]
	// Claims lists foreign hosts that answer for it. Left lists hosts, by name,
	// that answer for it but send no adverts.
	Claims, Left []string
	// Forged lists adverts for it that no host of the cluster sent: "MAC in the
	// name of ADDRESS".
	Forged []string
}

// Object is an object that should be there.
type Object struct{ Kind, Namespace, Name string }

// Operator is a ClusterOperator that is not healthy.
type Operator struct{ Name, State, Why string }

// Incident is a take-over, or a return, in one line. Package decide/incident
// makes the whole report.
type Incident struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // its progress: under-way, waits-for-a-person, over
	Summary string    `json:"summary"`
}

// IncidentsOf returns reports of incidents in one line each, in their order.
func IncidentsOf(list []incident.Incident) []Incident {
	var out []Incident
	for _, i := range list {
		out = append(out, Incident{ID: i.ID, At: i.Start, Kind: string(i.State), Summary: i.Title})
	}
	return out
}
