// Package topology is the one place that says what one, two or three control
// planes, workers and platforms mean for the rest of the cluster.
package topology

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/config"
)

// Topology is what an install configuration's numbers mean.
type Topology struct {
	ControlPlanes int
	// Workers is the number of workers the installation waits for.
	Workers                int
	ControlPlaneTopology   configv1.TopologyMode
	InfrastructureTopology configv1.TopologyMode
	// MastersSchedulable is true where control planes take workloads.
	MastersSchedulable bool
	DefaultPlacement   configv1.DefaultPlacement
	FeatureSet         configv1.FeatureSet
	// FeatureGates are entries "Name=true" or "Name=false".
	FeatureGates []string
	// Fencing is true where the hosts switch each other off.
	Fencing bool
	// HasVIPs is true where the hosts hold virtual IPs themselves.
	HasVIPs bool
}

// DualReplicaGate is the feature gate that two control planes need.
const DualReplicaGate = "DualReplicaTopology"

// Of returns what a valid configuration means.
func Of(c *config.InstallConfig) Topology {
	t := Topology{
		ControlPlanes: c.ControlPlaneReplicas(), Workers: c.ComputeReplicas(),
		DefaultPlacement: configv1.DefaultPlacementWorkers,
		FeatureSet:       configv1.FeatureSet(c.FeatureSet), FeatureGates: slices.Clone(c.FeatureGates),
		Fencing: c.ControlPlane.Fencing != nil, HasVIPs: c.Platform.BareMetal != nil,
	}
	t.MastersSchedulable = t.Workers == 0
	t.ControlPlaneTopology, t.InfrastructureTopology = modes(t.ControlPlanes, t.Workers)
	if c.Platform.None != nil && t.ControlPlanes == 1 {
		t.DefaultPlacement = configv1.DefaultPlacementControlPlane
	}
	return t
}

func modes(controlPlanes, workers int) (control, infrastructure configv1.TopologyMode) {
	switch {
	case controlPlanes == 1 && workers == 0:
		return configv1.SingleReplicaTopologyMode, configv1.SingleReplicaTopologyMode
	case controlPlanes == 1:
		return configv1.SingleReplicaTopologyMode, configv1.HighlyAvailableTopologyMode
	case controlPlanes == 2:
		return configv1.DualReplicaTopologyMode, configv1.HighlyAvailableTopologyMode
	default:
		return configv1.HighlyAvailableTopologyMode, configv1.HighlyAvailableTopologyMode
	}
}
