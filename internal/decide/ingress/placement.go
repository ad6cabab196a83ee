package ingress

import (
	"fmt"
	"maps"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Cluster holds the cluster-wide settings that matter to ingress.
type Cluster struct {
	// ControlPlane and Infrastructure are the topologies of the Infrastructure
	// object's status.
	ControlPlane, Infrastructure configv1.TopologyMode
	// Placement is the default placement from the Ingress object's status;
	// empty means Workers.
	Placement configv1.DefaultPlacement
	// Domain is the domain of the Ingress object.
	Domain string
	// Address is the first ingress VIP, empty if the site has none.
	Address string
}

// Placement holds the defaults for where routers run and how many, for an
// IngressController that does not say.
type Placement struct {
	Replicas int32
	// Single reports whether routers run on a single host.
	Single bool
	// NodeSelector selects the role and the operating system.
	NodeSelector map[string]string
	// ControlPlane reports whether routers run on control planes.
	ControlPlane bool
	// Warnings names settings of the cluster that are impossible or unknown.
	Warnings []string
}

// LabelRemoteWorker marks hosts in other networks. Routers avoid them unless
// the default placement is the control plane.
const LabelRemoteWorker = "node.openshift.io/remote-worker"

// DefaultPlacement implements the table of defaults: the placement selects the
// topology that counts, and that selects the number of replicas.
func DefaultPlacement(c Cluster) Placement {
	p := Placement{ControlPlane: c.Placement == configv1.DefaultPlacementControlPlane}
	if p.ControlPlane && c.ControlPlane == configv1.ExternalTopologyMode {
		p.ControlPlane = false
		p.Warnings = append(p.Warnings, "defaultPlacement ControlPlane is impossible with controlPlaneTopology External: routers run on workers")
	}
	topology, role := c.Infrastructure, state.LabelWorker
	if p.ControlPlane {
		topology, role = c.ControlPlane, state.LabelMaster
	}
	p.Single = topology == configv1.SingleReplicaTopologyMode
	p.Replicas = 2
	if p.Single {
		p.Replicas = 1
	}
	p.NodeSelector = map[string]string{corev1.LabelOSStable: "linux", role: ""}
	p.Warnings = append(p.Warnings, unknown(c)...)
	return p
}

// unknown names settings that this version does not know. An unknown topology
// is treated as HighlyAvailable, an unknown placement as Workers.
func unknown(c Cluster) []string {
	var out []string
	switch c.ControlPlane {
	case "", configv1.SingleReplicaTopologyMode, configv1.DualReplicaTopologyMode, configv1.HighlyAvailableTopologyMode,
		configv1.HighlyAvailableArbiterMode, configv1.ExternalTopologyMode:
	default:
		out = append(out, fmt.Sprintf("controlPlaneTopology %q is unknown: treated as HighlyAvailable", c.ControlPlane))
	}
	switch c.Infrastructure {
	case "", configv1.SingleReplicaTopologyMode, configv1.HighlyAvailableTopologyMode:
	default:
		out = append(out, fmt.Sprintf("infrastructureTopology %q is unknown: treated as HighlyAvailable", c.Infrastructure))
	}
	switch c.Placement {
	case "", configv1.DefaultPlacementControlPlane, configv1.DefaultPlacementWorkers:
	default:
		out = append(out, fmt.Sprintf("defaultPlacement %q is unknown: treated as Workers", c.Placement))
	}
	return out
}

// SettledPlacement replaces an absent default placement, once, with the
// specification's default. It never changes one that is set.
func SettledPlacement(present configv1.DefaultPlacement) configv1.DefaultPlacement {
	if present == "" {
		return configv1.DefaultPlacementWorkers
	}
	return present
}

// selectsControlPlane reports whether a selector names hosts of the control plane.
func selectsControlPlane(selector map[string]string) bool {
	_, master := selector[state.LabelMaster]
	_, controlPlane := selector[state.LabelControlPlane]
	return master || controlPlane
}

// ControlPlaneTolerations returns the tolerations with which routers run where
// kubeadm keeps workloads away.
func ControlPlaneTolerations() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: state.LabelControlPlane, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: state.LabelMaster, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
}

// lostAfter is how long a router stays on a lost host, in seconds, if another
// host may take its place.
const lostAfter = 30

// stay returns the tolerations for a lost host. A lone host's router waits for
// its host, because its address leads nowhere else.
func stay(single bool, given []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if !single {
			t.TolerationSeconds = new(int64(lostAfter))
		}
		if !tolerates(given, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}) {
			out = append(out, t)
		}
	}
	return out
}

func tolerates(list []corev1.Toleration, taint corev1.Taint) bool {
	for _, t := range list {
		if toleratesOne(t, taint) {
			return true
		}
	}
	return false
}

func toleratesOne(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == corev1.TolerationOpExists {
		return true
	}
	return t.Key != "" && t.Value == taint.Value
}

func copyLabels(in map[string]string) map[string]string {
	out := maps.Clone(in)
	if out == nil {
		out = map[string]string{}
	}
	return out
}
