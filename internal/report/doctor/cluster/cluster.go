// Package cluster gathers from the API the facts that decide/doctor judges
// about a cluster. It only reads. If it cannot read one part, that part is
// unknown and the others are still known.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Cluster reads from the API of a cluster.
type Cluster struct {
	reader client.Reader
	config *rest.Config
}

// Open returns the cluster of an access. So far it contacts the API only for
// what the client has to know about it.
func Open(access kube.Access) (*Cluster, error) {
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	return At(cfg)
}

// dialTime bounds the wait for an API that is away.
const dialTime = 15 * time.Second

// At works like Open with an existing configuration.
func At(cfg *rest.Config) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = dialTime
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return &Cluster{reader: c, config: cfg}, nil
}

// Gather reads everything: the facts about the cluster, and those that the agents
// of control planes published. If a host's agent published nothing, only its
// name is set. It fails only if it cannot read the nodes: then there is no API.
func (c *Cluster) Gather(ctx context.Context) (decide.Facts, error) {
	var nodes corev1.NodeList
	if err := c.reader.List(ctx, &nodes); err != nil {
		return decide.Facts{}, fmt.Errorf("list nodes: %w", err)
	}
	var f decide.Facts
	f.Hosts = c.hosts(ctx, nodes.Items)
	f.Topology = c.topology(ctx, nodes.Items, f.Hosts)
	list := []decide.Node{}
	for i := range nodes.Items {
		list = append(list, nodeOf(&nodes.Items[i]))
	}
	f.Cluster.Nodes = state.Known(list)
	f.Cluster.Pods = ask(ctx, &f, c.pods)
	f.Cluster.Budgets = ask(ctx, &f, c.budgets)
	f.Cluster.Workloads = ask(ctx, &f, c.workloads)
	f.Cluster.Metal = ask(ctx, &f, c.metal)
	f.Cluster.Remedies = ask(ctx, &f, c.remedies)
	f.Cluster.DNS = ask(ctx, &f, c.nameServices)
	f.Cluster.Unenforced = ask(ctx, &f, c.unenforced)
	return f, nil
}

// ask reads one part, and notes the error if that fails.
func ask[T any](ctx context.Context, f *decide.Facts, read func(context.Context) ([]T, error)) state.Fact[[]T] {
	list, err := read(ctx)
	if err != nil {
		f.Cluster.Trouble = append(f.Cluster.Trouble, err.Error())
		return state.Fact[[]T]{}
	}
	return state.Known(list)
}

// topology returns the topology that the hosts were installed with, or else the
// present one.
func (c *Cluster) topology(ctx context.Context, nodes []corev1.Node, hosts []decide.Host) decide.Topology {
	t := decide.Topology{ControlPlanes: len(hosts), Workers: len(nodes) - len(hosts), Fencing: c.dual(ctx)}
	if t.Fencing {
		t.ControlPlanes = 2 // one may have been removed from the cluster
	}
	for _, h := range hosts {
		if h.Topology.Known {
			t.ControlPlanes = max(t.ControlPlanes, h.Topology.Value.ControlPlanes)
			t.Fencing = t.Fencing || h.Topology.Value.Fencing
		}
	}
	return t
}

// dual reports whether the Infrastructure object declares two control planes
// that fence each other. If it cannot be read, the hosts declare it.
func (c *Cluster) dual(ctx context.Context) bool {
	var o unstructured.Unstructured
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Infrastructure"})
	if c.reader.Get(ctx, client.ObjectKey{Name: "cluster"}, &o) != nil {
		return false
	}
	mode, _, err := unstructured.NestedString(o.Object, "status", "controlPlaneTopology")
	return err == nil && mode == "DualReplica"
}

// controlPlane reports whether a node has the label of a control plane, or its
// kubelet declares that it was installed as one: the label may be lost.
func controlPlane(n *corev1.Node) bool {
	_, ok := n.Labels[state.LabelControlPlane]
	return ok || n.Labels[noderole.Claim] == string(state.RoleMaster)
}

func nodeOf(n *corev1.Node) decide.Node {
	out := decide.Node{
		Name: n.Name, ControlPlane: controlPlane(n), Labels: n.Labels, Closed: n.Spec.Unschedulable,
		Kubelet: n.Status.NodeInfo.KubeletVersion, Runtime: n.Status.NodeInfo.ContainerRuntimeVersion,
		Allocatable: amount(n.Status.Allocatable), Machine: n.Annotations[state.AnnotationMachine],
	}
	for _, t := range n.Spec.Taints {
		// A host that is away for a moment still counts. A host whose taint keeps
		// workloads away does not.
		out.Closed = out.Closed || t.Effect != corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(t.Key, "node-role.kubernetes.io/")
	}
	return out
}

func amount(r corev1.ResourceList) decide.Amount {
	return decide.Amount{CPU: r.Cpu().MilliValue(), Memory: r.Memory().Value(), Pods: r.Pods().Value()}
}

// sorted orders hosts by name.
func sorted(hosts []decide.Host) []decide.Host {
	slices.SortFunc(hosts, func(a, b decide.Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}
