package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation is where the agent of a control plane publishes its Host, so that
// whoever has only the API sees what the hosts are like.
const Annotation = state.AnnotationDomain + "doctor"

// Facts are what was found out about a cluster and its hosts.
type Facts struct {
	At       time.Time `json:"at"`
	Topology Topology  `json:"topology"`
	// Hosts are the control planes, ordered by name. One that nobody could ask
	// is among them, and nothing is known of it.
	Hosts   []Host  `json:"hosts"`
	Cluster Cluster `json:"cluster"`
}

// Topology says which checks apply.
type Topology struct {
	ControlPlanes int `json:"controlPlanes"`
	Workers       int `json:"workers"`
	// Fencing is true where two control planes switch each other off.
	Fencing bool `json:"fencing"`
}

// Source is how the facts of a host got here.
type Source string

// The sources.
const (
	Unasked   Source = ""          // nobody could ask it
	Here      Source = "here"      // by the command itself, on this host
	Asked     Source = "asked"     // by the host's own agent, just now
	Published Source = "published" // by the host's agent, earlier, through the API
)

// Host is what a host says about itself, and nothing in it is secret.
type Host struct {
	Name string `json:"name"`
	// From and To are the host's own clock before and after it looked.
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Source Source    `json:"source,omitempty"`
	// Trouble says why something is unknown.
	Trouble []string `json:"trouble,omitempty"`
	// Topology is what the host was installed for.
	Topology state.Fact[Topology] `json:"topology"`

	Clock state.Fact[Clock] `json:"clock"`
	// Offset is set by who gathers: how far the host's clock is from its own.
	Offset state.Fact[Offset] `json:"offset"`
	// Swap is in bytes.
	Swap state.Fact[uint64] `json:"swap"`
	// Rebooters and Watchdogs are what may start the host anew by itself.
	Rebooters state.Fact[[]string] `json:"rebooters"`
	Watchdogs state.Fact[[]string] `json:"watchdogs"`
	Rings     state.Fact[[]Ring]   `json:"rings"`
	// RingLacks is what Corosync's packets lack to be encrypted and signed, empty
	// where they are.
	RingLacks    state.Fact[string]        `json:"ringLacks"`
	BMCs         state.Fact[[]BMC]         `json:"bmcs"`
	Devices      state.Fact[[]Device]      `json:"devices"`
	Etcd         state.Fact[Etcd]          `json:"etcd"`
	Disk         state.Fact[Disk]          `json:"disk"`
	Certificates state.Fact[[]Certificate] `json:"certificates"`
	Names        state.Fact[[]Name]        `json:"names"`
	NICs         state.Fact[NICs]          `json:"nics"`
	Firewall     state.Fact[Firewall]      `json:"firewall"`
}

// Firewall is what keeps packets from a host.
type Firewall struct {
	// Ours is true where the host has the table of ours, Off where a person wants
	// none.
	Ours bool `json:"ours"`
	Off  bool `json:"off,omitempty"`
	// Site are the firewalls of the site that work on the host.
	Site []state.SiteFirewall `json:"site,omitempty"`
}

// Clock is what keeps a host's clock right.
type Clock struct {
	// Synchronised is what the kernel says; Service names who keeps it, empty for
	// nobody that is known.
	Synchronised bool   `json:"synchronised"`
	Service      string `json:"service,omitempty"`
}

// Offset bounds how far a clock is ahead of the one that measures.
type Offset struct {
	Low  time.Duration `json:"low"`
	High time.Duration `json:"high"`
}

// Ring is one link of Corosync, as this host sees it.
type Ring struct {
	Address   string `json:"address"`
	Interface string `json:"interface,omitempty"`
	Subnet    string `json:"subnet,omitempty"`
	MTU       int    `json:"mtu,omitempty"`
	// Bond is the number of interfaces in the bond that carries it, 0 for none.
	Bond int `json:"bond,omitempty"`
	// Switches are what LLDP names at the other end, empty where nothing does.
	Switches []string `json:"switches,omitempty"`
}

// BMC is a device that this host holds, and its way there.
type BMC struct {
	Target  string        `json:"target"`
	Address string        `json:"address"` // an IP address, empty where its name does not resolve
	Delay   time.Duration `json:"delay"`
	// Verified is true where its certificate is checked or pinned, Pinned where
	// it is pinned: dates do not count then.
	Verified bool `json:"verified"`
	Pinned   bool `json:"pinned,omitempty"`
	// Fingerprint is the pinned certificate's; FirstSight is true where no person
	// has compared it.
	Fingerprint string `json:"fingerprint,omitempty"`
	FirstSight  bool   `json:"firstSight,omitempty"`
	// Shows is what it shows to anybody, without an account.
	Shows state.Fact[Shown] `json:"shows"`
	// Interface is the one that leads there, Gateway is set where a router does.
	Interface string   `json:"interface,omitempty"`
	Gateway   string   `json:"gateway,omitempty"`
	Switches  []string `json:"switches,omitempty"`
	// Proven is when this host last proved the target to be off, zero for never,
	// and Slowest the longest that it took lately without its delay.
	Proven  time.Time     `json:"proven,omitzero"`
	Slowest time.Duration `json:"slowest,omitempty"`
}

// Shown is which certificate a BMC shows, when that ends, and how far its clock is
// from that of the host that asked it; unknown where it tells no time.
type Shown struct {
	Fingerprint string `json:"fingerprint,omitempty"`

	Ends   time.Time          `json:"ends"`
	Offset state.Fact[Offset] `json:"offset"`
}

// Device is a fence device of Pacemaker's configuration.
type Device struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Ours is true for those that the setup makes.
	Ours bool `json:"ours,omitempty"`
}

// Etcd is what the metrics of a host's etcd say.
type Etcd struct {
	Size  uint64 `json:"size"`  // of the database file, in bytes
	InUse uint64 `json:"inUse"` // of it
	Quota uint64 `json:"quota"`
	// FsyncP99 is what 99 of 100 writes of the log took at most since etcd was
	// started, interpolated within its histogram as Prometheus does; Writes is
	// how many there were.
	FsyncP99 time.Duration `json:"fsyncP99"`
	Writes   uint64        `json:"writes"`
}

// Disk is an own measurement of small writes, each made durable.
type Disk struct {
	Path   string        `json:"path"`
	Writes int           `json:"writes"`
	P99    time.Duration `json:"p99"`
	Worst  time.Duration `json:"worst"`
}

// Certificate is one that a part of the cluster on this host shows or trusts.
type Certificate struct {
	Path      string    `json:"path"`
	Ends      time.Time `json:"ends"`
	Authority bool      `json:"authority,omitempty"`
}

// Name is how a name of the cluster resolves on a host.
type Name struct {
	Name string `json:"name"`
	// Addresses are the answer, Want are those of which one has to be in it;
	// empty where any will do.
	Addresses []string `json:"addresses,omitempty"`
	Want      []string `json:"want,omitempty"`
	Problem   string   `json:"problem,omitempty"`
}

// Cluster is what the API says. A kind that the API does not have has no
// objects, and that is known.
type Cluster struct {
	Trouble   []string                      `json:"trouble,omitempty"`
	Nodes     state.Fact[[]Node]            `json:"nodes"`
	Pods      state.Fact[[]Pod]             `json:"pods"`
	Budgets   state.Fact[[]Budget]          `json:"budgets"`
	Workloads state.Fact[[]Workload]        `json:"workloads"`
	Metal     state.Fact[[]BareMetalHost]   `json:"bareMetalHosts"`
	Remedies  state.Fact[[]RemediationRule] `json:"remediations"`
	// DNS are the Services at which pods ask for names.
	DNS state.Fact[[]DNSService] `json:"dns,omitzero"`
	// Unenforced are NetworkPolicies, as namespace/name, that nobody enforces.
	Unenforced state.Fact[[]string] `json:"unenforced,omitzero"`
}

// DNSService is a Service of the cluster's DNS.
type DNSService struct {
	Name string `json:"name"`
	// SameNode is true where a pod's questions go to its own host first.
	SameNode bool `json:"sameNode,omitempty"`
}

// Amount is of processor (thousandths of a core), memory (bytes) and pods.
type Amount struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	Pods   int64 `json:"pods"`
}

// Node is a node of the cluster.
type Node struct {
	Name         string            `json:"name"`
	ControlPlane bool              `json:"controlPlane,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	// Closed is true where no new pods are placed: it is drained, or tainted.
	Closed      bool   `json:"closed,omitempty"`
	Kubelet     string `json:"kubelet"`
	Runtime     string `json:"runtime"`
	Allocatable Amount `json:"allocatable"`
	// Machine is what its agent says of its SMBIOS.
	Machine string `json:"machine,omitempty"`
}

// Pod is a pod that has not ended.
type Pod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Node      string            `json:"node,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Fixed is true for what belongs to its host: of a DaemonSet, or static. A
	// drain leaves it, and nothing makes it anew elsewhere.
	Fixed bool `json:"fixed,omitempty"`
	// Stays says what keeps a replacement from any other host, empty for nothing.
	Stays string `json:"stays,omitempty"`
	// Alone is true where no two of its kind run on one host.
	Alone bool `json:"alone,omitempty"`
	// Unready is true where it says that it is not ready to serve.
	Unready  bool   `json:"unready,omitempty"`
	Requests Amount `json:"requests"`
}

// Budget is a PodDisruptionBudget with what the cluster computed for it.
type Budget struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Selector  *metav1.LabelSelector `json:"selector,omitempty"`
	// Observed is false while the numbers are those of an older spec, or of none.
	Observed bool  `json:"observed"`
	Expected int32 `json:"expected"` // pods
	Desired  int32 `json:"desired"`  // healthy ones, at least
	Healthy  int32 `json:"healthy"`
	Allowed  int32 `json:"allowed"`
}

// Workload is a Deployment, StatefulSet or DaemonSet.
type Workload struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Replicas  int32             `json:"replicas"`
	Labels    map[string]string `json:"labels,omitempty"` // of its pods
	Images    []string          `json:"images,omitempty"`
}

// BareMetalHost is a host as metal3 manages it.
type BareMetalHost struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hostname is what its inspection found, Consumer what it was given to.
	Hostname string `json:"hostname,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	// ControlPlane is true where a label says so.
	ControlPlane bool `json:"controlPlane,omitempty"`
	BMC          bool `json:"bmc"` // it has one to manage power with
	Online       bool `json:"online"`
	Detached     bool `json:"detached"`
	Reboots      bool `json:"reboots"` // an annotation asks for a reboot
}

// RemediationRule is an object by which an operator restarts, fences or deletes
// nodes that it thinks are ill.
type RemediationRule struct {
	Kind      string                `json:"kind"`
	Namespace string                `json:"namespace,omitempty"`
	Name      string                `json:"name"`
	Selector  *metav1.LabelSelector `json:"selector,omitempty"`
	// Node is the one node that it is about, empty where Selector counts.
	Node string `json:"node,omitempty"`
}
