// Package topology alone decides what the numbers of control planes and workers
// and the platform mean for a cluster: what its Infrastructure, Ingress,
// Scheduler and FeatureGate objects state, how etcd grows and whether hosts are
// fenced. It decides from the install-config alone and never from the later
// state of a cluster: the topology of a cluster does not change.
package topology

import (
	"cmp"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Topology holds what follows from an install-config.
type Topology struct {
	// ControlPlanes and Workers are the numbers of hosts for which the installation
	// waits.
	ControlPlanes, Workers int

	// ControlPlaneTopology and InfrastructureTopology go into the status of the
	// Infrastructure object. The latter is never DualReplica: its schema has only
	// SingleReplica and HighlyAvailable.
	ControlPlaneTopology, InfrastructureTopology configv1.TopologyMode

	// MastersSchedulable is true if no other hosts could run workloads.
	MastersSchedulable bool

	// DefaultPlacement names the hosts on which routers run by default.
	DefaultPlacement configv1.DefaultPlacement

	// FeatureSet and FeatureGates go into the FeatureGate object. The gates
	// are ordered by name.
	FeatureSet   configv1.FeatureSet
	FeatureGates []config.FeatureGate

	// EtcdScaling is the way in which etcd reaches its size.
	EtcdScaling EtcdScaling

	// Fencing is true if the control planes switch each other off, which needs the
	// extension two-node-ha on them.
	Fencing bool

	// Families are the address families of the cluster in their order, and
	// PrimaryFamily is the first one.
	Families      []netaddr.Family
	PrimaryFamily netaddr.Family

	// HasVIPs is true if hosts hold the addresses of API and ingress; else the
	// site's load balancer does.
	HasVIPs bool
}

// EtcdScaling names a way in which etcd reaches its size.
type EtcdScaling string

// The ways in which etcd reaches its size.
const (
	// EtcdSingleMember has one member from the first minute to the last.
	EtcdSingleMember EtcdScaling = "SingleMember"
	// EtcdTwoNode has two members. The first host starts alone and adds the second;
	// then Pacemaker takes etcd over on both, and may make it a single member again
	// after a confirmed fence.
	EtcdTwoNode EtcdScaling = "TwoNode"
	// EtcdHighlyAvailable has a member on every control plane, added one at a
	// time as learners. It keeps quorum without help.
	EtcdHighlyAvailable EtcdScaling = "HighlyAvailable"
)

// Of returns the topology of a valid configuration.
func Of(c *config.InstallConfig) Topology {
	t := Topology{
		ControlPlanes: c.ControlPlaneReplicas(),
		Workers:       c.ComputeReplicas(),
		Families:      c.Families(),
		HasVIPs:       c.Platform.BareMetal != nil,
	}
	if len(t.Families) > 0 {
		t.PrimaryFamily = t.Families[0]
	}
	t.MastersSchedulable = t.Workers == 0
	t.controlPlane()
	t.InfrastructureTopology = t.infrastructure()
	t.DefaultPlacement = t.placement(c.Platform)
	t.FeatureSet, t.FeatureGates = t.features(c)
	return t
}

// controlPlane sets what follows from the number of control planes alone.
func (t *Topology) controlPlane() {
	switch t.ControlPlanes {
	case 1:
		t.ControlPlaneTopology, t.EtcdScaling = configv1.SingleReplicaTopologyMode, EtcdSingleMember
	case 2:
		t.ControlPlaneTopology, t.EtcdScaling = configv1.DualReplicaTopologyMode, EtcdTwoNode
		t.Fencing = true
	default:
		t.ControlPlaneTopology, t.EtcdScaling = configv1.HighlyAvailableTopologyMode, EtcdHighlyAvailable
	}
}

// infrastructure returns SingleReplica only if everything runs on one host.
func (t *Topology) infrastructure() configv1.TopologyMode {
	if t.ControlPlanes == 1 && t.Workers == 0 {
		return configv1.SingleReplicaTopologyMode
	}
	return configv1.HighlyAvailableTopologyMode
}

// placement keeps routers on a lone control plane if the site has no VIPs: there
// *.apps points at that host, and clients would not find a router on a worker
// that joins later.
func (t *Topology) placement(p config.Platform) configv1.DefaultPlacement {
	if t.ControlPlanes == 1 && p.None != nil {
		return configv1.DefaultPlacementControlPlane
	}
	return configv1.DefaultPlacementWorkers
}

// features adds the gate of two control planes to the requested ones. A cluster
// has one feature set, so two control planes always have CustomNoUpgrade; config
// refuses any other next to them.
func (t *Topology) features(c *config.InstallConfig) (configv1.FeatureSet, []config.FeatureGate) {
	set := configv1.FeatureSet(c.FeatureSet)
	gates := map[string]config.FeatureGate{}
	for _, entry := range c.FeatureGates {
		if gate, ok := config.ParseFeatureGate(entry); ok {
			gates[gate.Name] = gate
		}
	}
	if t.ControlPlaneTopology == configv1.DualReplicaTopologyMode {
		set = configv1.CustomNoUpgrade
		gates[config.DualReplicaGate] = config.FeatureGate{Name: config.DualReplicaGate, Enabled: true}
	}
	return set, sortedGates(gates)
}

func sortedGates(gates map[string]config.FeatureGate) []config.FeatureGate {
	var out []config.FeatureGate
	for _, gate := range gates {
		out = append(out, gate)
	}
	slices.SortFunc(out, func(a, b config.FeatureGate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
