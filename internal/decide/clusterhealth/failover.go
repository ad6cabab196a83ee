package clusterhealth

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Failover compares, for one resource, what a host would have to run after the
// loss of all other control planes with what it can provide: cpu in cores,
// memory in bytes, pods in number.
type Failover struct {
	Host, Resource         string
	Requested, Allocatable float64
}

// Load collects the requests of pods, which Add adds one by one.
type Load struct{ pods []podLoad }

type podLoad struct {
	node  string
	stays bool // it ends with its host: a static pod, or one of a DaemonSet
	wants map[corev1.ResourceName]resource.Quantity
}

// countedResources lists the resources that are compared.
var countedResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}

// Add adds a pod that has not ended.
func (l *Load) Add(p *corev1.Pod) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	controller := metav1.GetControllerOfNoCopy(p)
	l.pods = append(l.pods, podLoad{
		node: p.Spec.NodeName, wants: requests(p),
		stays: controller != nil && (controller.Kind == "DaemonSet" || controller.Kind == "Node"),
	})
}

// Failovers returns for each control plane what it would have to run: the pods
// that run on it already, and those that run on other control planes or wait for
// a host and may move.
func (l *Load) Failovers(nodes []corev1.Node) []Failover {
	planes := map[string]bool{}
	for i := range nodes {
		if _, is := nodes[i].Labels[state.LabelControlPlane]; is {
			planes[nodes[i].Name] = true
		}
	}
	var out []Failover
	for i := range nodes {
		n := &nodes[i]
		if !planes[n.Name] {
			continue
		}
		sum := make(map[corev1.ResourceName]*resource.Quantity)
		for _, p := range l.pods {
			if p.node == n.Name || !p.stays && (p.node == "" || planes[p.node]) {
				p.addTo(sum)
			}
		}
		for _, name := range countedResources {
			f := Failover{Host: n.Name, Resource: string(name)}
			if q := sum[name]; q != nil {
				f.Requested = q.AsApproximateFloat64()
			}
			q := n.Status.Allocatable[name]
			f.Allocatable = q.AsApproximateFloat64()
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Failover) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

func (p podLoad) addTo(sum map[corev1.ResourceName]*resource.Quantity) {
	for name, q := range p.wants {
		if sum[name] == nil {
			sum[name] = &resource.Quantity{}
		}
		sum[name].Add(q)
	}
}

// requests returns what the scheduler counts for a pod: the containers with
// their sidecars, or the largest demand of its init containers if that is more,
// and the overhead of its sandbox. A request of the pod as a whole replaces
// those of its containers.
func requests(p *corev1.Pod) map[corev1.ResourceName]resource.Quantity {
	out := make(map[corev1.ResourceName]resource.Quantity)
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		var running, beside, begin resource.Quantity
		for i := range p.Spec.InitContainers {
			c := &p.Spec.InitContainers[i]
			want := c.Resources.Requests[name]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				beside.Add(want)
				want = resource.Quantity{}
			}
			want.Add(beside)
			begin = larger(begin, want)
		}
		running.Add(beside)
		for i := range p.Spec.Containers {
			running.Add(p.Spec.Containers[i].Resources.Requests[name])
		}
		total := larger(running, begin)
		if p.Spec.Resources != nil {
			if q, set := p.Spec.Resources.Requests[name]; set {
				total = q
			}
		}
		total.Add(p.Spec.Overhead[name])
		out[name] = total
	}
	return out
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}
