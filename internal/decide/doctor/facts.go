package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation is the annotation in which the agent of a control plane publishes
// its Host, for callers that have only the API.
const Annotation = state.AnnotationDomain + "doctor"

// Facts holds what was found out about a cluster and its hosts.
type Facts struct {
	At       time.Time `json:"at"`
	Topology Topology  `json:"topology"`
	// Hosts lists the control planes, ordered by name. It includes hosts that
	// could not be asked, with everything unknown.
	Hosts   []Host  `json:"hosts"`
	Cluster Cluster `json:"cluster"`
}

// Topology says which checks apply.
type Topology struct {
	ControlPlanes int `json:"controlPlanes"`
	Workers       int `json:"workers"`
	// Fencing is true if two control planes switch each other off.
	Fencing bool `json:"fencing"`
}

// Source says how the facts of a host were obtained.
type Source string

// The sources.
const (
	Unasked   Source = ""          // the host could not be asked
	Here      Source = "here"      // by the command itself, on this host
	Asked     Source = "asked"     // by the host's own agent, just now
	Published Source = "published" // by the host's own agent, earlier, through the API
)

// Host is what a host reports about itself. Nothing in it is secret.
type Host struct {
	Name string `json:"name"`
	// From and To are the times of the host's own clock before and after it
	// looked.
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Source Source    `json:"source,omitempty"`
	// Trouble says why something is unknown.
	Trouble []string `json:"trouble,omitempty"`
	// Topology is the topology for which the host was installed.
	Topology state.Fact[Topology] `json:"topology"`

	Clock state.Fact[Clock] `json:"clock"`
	// Offset is the difference between the host's clock and that of the program
	// that gathers the facts, which sets it.
	Offset state.Fact[Offset] `json:"offset"`
	// Called is the name that the kernel has for the host. It may differ from Name, which is
	// the name of its node.
	Called state.Fact[string] `json:"called"`
	// Addresses are those by which its node is known.
	Addresses state.Fact[[]OwnAddress] `json:"addresses"`
	// Swap is the size of the swap space in bytes.
	Swap state.Fact[uint64] `json:"swap"`
	// Rebooters and Watchdogs list what may restart the host by itself.
	Rebooters state.Fact[[]string] `json:"rebooters"`
	Watchdogs state.Fact[[]string] `json:"watchdogs"`
	Rings     state.Fact[[]Ring]   `json:"rings"`
	// RingLacks names the settings that Corosync lacks to encrypt and sign its
	// packets, empty if it lacks none.
	RingLacks    state.Fact[string]        `json:"ringLacks"`
	BMCs         state.Fact[[]BMC]         `json:"bmcs"`
	Devices      state.Fact[[]Device]      `json:"devices"`
	Etcd         state.Fact[Etcd]          `json:"etcd"`
	Disk         state.Fact[Disk]          `json:"disk"`
	Certificates state.Fact[[]Certificate] `json:"certificates"`
	Names        state.Fact[[]Name]        `json:"names"`
	NICs         state.Fact[NICs]          `json:"nics"`
	Firewall     state.Fact[Firewall]      `json:"firewall"`
	// Mirrors are the files with mirrors of registries that containerd ignores.
	Mirrors state.Fact[[]Mirror] `json:"mirrors"`
}

// Mirror is a file with the mirrors of a registry, and why containerd ignores it.
type Mirror struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Firewall describes what blocks packets to a host.
type Firewall struct {
	// Ours is true if the host has our table, Off if an administrator wants
	// none.
	Ours bool `json:"ours"`
	Off  bool `json:"off,omitempty"`
	// Site lists the site's firewalls that work on the host.
	Site []state.SiteFirewall `json:"site,omitempty"`
}

// OwnAddress is an address by which the node of a host is known.
type OwnAddress struct {
	Address string `json:"address"`
	// Interface is empty if no interface has it.
	Interface string `json:"interface,omitempty"`
}

// Clock describes how a host's clock is kept right.
type Clock struct {
	// Synchronised is the kernel's own state. Service names the program that
	// keeps the clock, empty if no known one does.
	Synchronised bool   `json:"synchronised"`
	Service      string `json:"service,omitempty"`
}

// Offset bounds how far a clock is ahead of the measuring one.
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
	// Switches lists the switches that LLDP names at the other end, empty if it
	// names none.
	Switches []string `json:"switches,omitempty"`
}

// BMC is a fence device that this host holds, and the way to it.
type BMC struct {
	Target  string        `json:"target"`
	Address string        `json:"address"` // an IP address, empty if its name does not resolve
	Delay   time.Duration `json:"delay"`
	// Verified is true if its certificate is checked or pinned. Pinned is true
	// if it is pinned; its dates do not matter then.
	Verified bool `json:"verified"`
	Pinned   bool `json:"pinned,omitempty"`
	// Fingerprint is the fingerprint of the pinned certificate. FirstSight is
	// true if no administrator has compared it.
	Fingerprint string `json:"fingerprint,omitempty"`
	FirstSight  bool   `json:"firstSight,omitempty"`
	// Shows is what the BMC shows to anybody, without an account.
	Shows state.Fact[Shown] `json:"shows"`
	// Interface is the interface that leads there. Gateway is set if a router
	// does.
	Interface string   `json:"interface,omitempty"`
	Gateway   string   `json:"gateway,omitempty"`
	Switches  []string `json:"switches,omitempty"`
	// Proven is when this host last proved the target to be off, zero for
	// never. Slowest is the longest time that a fence took lately, without its
	// delay.
	Proven  time.Time     `json:"proven,omitzero"`
	Slowest time.Duration `json:"slowest,omitempty"`
}

// Shown is the certificate that a BMC shows, the end of its validity, and the
// offset of the BMC's clock from that of the host that asked, unknown if the
// BMC tells no time.
type Shown struct {
	Fingerprint string `json:"fingerprint,omitempty"`

	Ends   time.Time          `json:"ends"`
	Offset state.Fact[Offset] `json:"offset"`
}

// Device is a fence device of Pacemaker's configuration.
type Device struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Ours is true for the devices that the setup makes.
	Ours bool `json:"ours,omitempty"`
}

// Etcd holds facts from the metrics of a host's etcd.
type Etcd struct {
	Size  uint64 `json:"size"`  // of the database file, in bytes
	InUse uint64 `json:"inUse"` // the part of it that is in use
	Quota uint64 `json:"quota"`
	// Disk is the size of the file system with its data, in bytes; zero if that is not known.
	Disk uint64 `json:"disk,omitempty"`
	// FsyncP99 is the longest time of the fastest 99 of 100 log writes since
	// etcd started, interpolated within its histogram as Prometheus does.
	// Writes is their number.
	FsyncP99 time.Duration `json:"fsyncP99"`
	Writes   uint64        `json:"writes"`
}

// Disk is Holdfast's own measurement of small writes, each made durable.
type Disk struct {
	Path   string        `json:"path"`
	Writes int           `json:"writes"`
	P99    time.Duration `json:"p99"`
	Worst  time.Duration `json:"worst"`
}

// Certificate is a certificate that a part of the cluster on this host shows or
// trusts.
type Certificate struct {
	Path string `json:"path"`
	// Begins is zero if the host's agent is of an earlier build.
	Begins    time.Time `json:"begins,omitzero"`
	Ends      time.Time `json:"ends"`
	Authority bool      `json:"authority,omitempty"`
	// Lacks is the key of its authority, if the host needs that to renew it and does
	// not have it.
	Lacks string `json:"lacks,omitempty"`
	// Others is the number of further certificates in the file.
	Others int `json:"others,omitempty"`
}

// Name describes how a name of the cluster resolves on a host.
type Name struct {
	Name string `json:"name"`
	// Addresses is the answer. It must contain one of Want, unless Want is
	// empty.
	Addresses []string `json:"addresses,omitempty"`
	Want      []string `json:"want,omitempty"`
	Problem   string   `json:"problem,omitempty"`
}

// Cluster holds facts from the API. A kind that the API does not have counts as
// known to have no objects.
type Cluster struct {
	Trouble   []string                      `json:"trouble,omitempty"`
	Nodes     state.Fact[[]Node]            `json:"nodes"`
	Pods      state.Fact[[]Pod]             `json:"pods"`
	Budgets   state.Fact[[]Budget]          `json:"budgets"`
	Workloads state.Fact[[]Workload]        `json:"workloads"`
	Metal     state.Fact[[]BareMetalHost]   `json:"bareMetalHosts"`
	Remedies  state.Fact[[]RemediationRule] `json:"remediations"`
	// DNS lists the Services that pods ask for names.
	DNS state.Fact[[]DNSService] `json:"dns,omitzero"`
	// Unenforced lists the NetworkPolicies, as namespace/name, that nothing
	// enforces.
	Unenforced state.Fact[[]string] `json:"unenforced,omitzero"`
	// Ends lists what is valid until a time and has no file on a host. It is known only
	// if it was asked for.
	Ends state.Fact[[]Ending] `json:"ends,omitzero"`
}

// Ending is a certificate that the API has, or a kubeconfig that it signed.
type Ending struct {
	What string    `json:"what"`
	Ends time.Time `json:"ends"`
	// Renewer is the program that renews it, empty where nobody does.
	Renewer string `json:"renewer,omitempty"`
	// Personal is true for the kubeconfig of a person, who chose its life.
	Personal bool `json:"personal,omitempty"`
}

// DNSService is a Service of the cluster's DNS.
type DNSService struct {
	Name string `json:"name"`
	// SameNode is true if a pod's questions go to its own host first.
	SameNode bool `json:"sameNode,omitempty"`
}

// Amount holds processor time (thousandths of a core), memory (bytes) and pods.
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
	// Closed is true if no new pods are placed there: the node is drained, or
	// tainted.
	Closed      bool   `json:"closed,omitempty"`
	Kubelet     string `json:"kubelet"`
	Runtime     string `json:"runtime"`
	Allocatable Amount `json:"allocatable"`
	// Machine is the node's SMBIOS identity, as its agent reports it.
	Machine string `json:"machine,omitempty"`
}

// Pod is a pod that has not ended.
type Pod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Node      string            `json:"node,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Fixed is true for a pod that belongs to its host, of a DaemonSet or
	// static. A drain leaves it, and nothing replaces it elsewhere.
	Fixed bool `json:"fixed,omitempty"`
	// Stays says what keeps a replacement off every other host, empty for
	// nothing.
	Stays string `json:"stays,omitempty"`
	// Alone is true if no two pods of its kind run on one host.
	Alone bool `json:"alone,omitempty"`
	// Unready is true if the pod reports that it is not ready to serve.
	Unready  bool   `json:"unready,omitempty"`
	Requests Amount `json:"requests"`
}

// Budget is a PodDisruptionBudget with what the cluster computed for it.
type Budget struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Selector  *metav1.LabelSelector `json:"selector,omitempty"`
	// Observed is false if the numbers belong to an older spec, or to none.
	Observed bool  `json:"observed"`
	Expected int32 `json:"expected"` // pods
	Desired  int32 `json:"desired"`  // minimum of healthy pods
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
	// Hostname is the name that its inspection found, Consumer the object that
	// uses it.
	Hostname string `json:"hostname,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	// ControlPlane is true if a label says so.
	ControlPlane bool `json:"controlPlane,omitempty"`
	BMC          bool `json:"bmc"` // it has a BMC to manage power with
	Online       bool `json:"online"`
	Detached     bool `json:"detached"`
	Reboots      bool `json:"reboots"` // an annotation asks for a reboot
}

// RemediationRule is an object that tells an operator to restart, fence or
// delete nodes that it considers ill.
type RemediationRule struct {
	Kind      string                `json:"kind"`
	Namespace string                `json:"namespace,omitempty"`
	Name      string                `json:"name"`
	Selector  *metav1.LabelSelector `json:"selector,omitempty"`
	// Node is the only node that it concerns; if it is empty, Selector counts.
	Node string `json:"node,omitempty"`
}
