package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	said "github.com/holdfast/holdfast/internal/model/workload"
)

// hostname is the label whose value differs on each host.
const hostname = corev1.LabelHostname

func (c *Cluster) pods(ctx context.Context) ([]decide.Pod, error) {
	var list corev1.PodList
	if err := c.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	local, err := c.localVolumes(ctx)
	if err != nil {
		return nil, err
	}
	out := []decide.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		out = append(out, decide.Pod{
			Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Labels: p.Labels,
			Fixed: fixed(p), Stays: stays(p, local), Alone: alone(p), Unready: unready(p), Requests: requests(&p.Spec),
		})
	}
	return out, nil
}

// fixed reports whether a pod is bound to its host.
func fixed(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller && o.Kind == "DaemonSet" {
			return true
		}
	}
	return false
}

// stays returns what keeps a pod's replacement on the same host.
func stays(p *corev1.Pod, local map[string]bool) string {
	if _, ok := p.Spec.NodeSelector[hostname]; ok {
		return "its node selector names one host"
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && namesHost(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution) {
		return "its node affinity names one host"
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && local[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName] {
			return "its volume " + v.PersistentVolumeClaim.ClaimName + " is on one host"
		}
	}
	return ""
}

// namesHost reports whether each term of a selector names exactly one host.
func namesHost(s *corev1.NodeSelector) bool {
	if s == nil || len(s.NodeSelectorTerms) == 0 {
		return false
	}
	for _, t := range s.NodeSelectorTerms {
		one := false
		for _, e := range t.MatchExpressions {
			one = one || e.Key == hostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1
		}
		for _, e := range t.MatchFields {
			one = one || e.Key == "metadata.name"
		}
		if !one {
			return false
		}
	}
	return len(s.NodeSelectorTerms) == 1
}

// localVolumes returns the claims whose volume is on one host.
func (c *Cluster) localVolumes(ctx context.Context) (map[string]bool, error) {
	var list corev1.PersistentVolumeList
	if err := c.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		v := &list.Items[i].Spec
		if v.ClaimRef != nil && v.NodeAffinity != nil && namesHost(v.NodeAffinity.Required) {
			out[v.ClaimRef.Namespace+"/"+v.ClaimRef.Name] = true
		}
	}
	return out, nil
}

// alone reports whether only one pod of this kind can run on a host.
func alone(p *corev1.Pod) bool {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				return true
			}
		}
	}
	if p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil {
		for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if t.TopologyKey == hostname {
				return true
			}
		}
	}
	return false
}

// requests returns the resources that the scheduler counts for a pod: the sum of
// its containers and sidecars or, if that is more, the greatest need of another
// init container.
func requests(s *corev1.PodSpec) decide.Amount {
	var sum, first decide.Amount
	for _, c := range s.InitContainers {
		a := amount(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum = plus(sum, a)
			first = most(first, sum)
			continue
		}
		first = most(first, plus(sum, a))
	}
	for _, c := range s.Containers {
		sum = plus(sum, amount(c.Resources.Requests))
	}
	sum = plus(most(sum, first), amount(s.Overhead))
	sum.Pods = 1
	return sum
}

func plus(a, b decide.Amount) decide.Amount {
	return decide.Amount{CPU: a.CPU + b.CPU, Memory: a.Memory + b.Memory}
}

func most(a, b decide.Amount) decide.Amount {
	return decide.Amount{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory)}
}

func (c *Cluster) budgets(ctx context.Context) ([]decide.Budget, error) {
	var list policyv1.PodDisruptionBudgetList
	if err := c.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	out := []decide.Budget{}
	for i := range list.Items {
		b := &list.Items[i]
		out = append(out, decide.Budget{
			Namespace: b.Namespace, Name: b.Name, Selector: b.Spec.Selector,
			Observed: b.Status.ObservedGeneration >= b.Generation && b.Status.ObservedGeneration > 0,
			Expected: b.Status.ExpectedPods, Desired: b.Status.DesiredHealthy,
			Healthy: b.Status.CurrentHealthy, Allowed: b.Status.DisruptionsAllowed,
		})
	}
	return out, nil
}

func (c *Cluster) workloads(ctx context.Context) ([]decide.Workload, error) {
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var daemons appsv1.DaemonSetList
	for what, list := range map[string]client.ObjectList{"Deployments": &deployments, "StatefulSets": &sets, "DaemonSets": &daemons} {
		if err := c.reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	out := []decide.Workload{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		out = append(out, workload("Deployment", d, replicas(d.Spec.Replicas), &d.Spec.Template))
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		out = append(out, workload("StatefulSet", d, replicas(d.Spec.Replicas), &d.Spec.Template))
	}
	for i := range daemons.Items {
		d := &daemons.Items[i]
		out = append(out, workload("DaemonSet", d, d.Status.DesiredNumberScheduled, &d.Spec.Template))
	}
	return out, nil
}

// replicas returns the number of replicas, which is one by default.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func workload(kind string, o client.Object, n int32, t *corev1.PodTemplateSpec) decide.Workload {
	w := decide.Workload{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Replicas: n, Labels: t.Labels}
	for _, c := range t.Spec.Containers {
		w.Images = append(w.Images, c.Image)
	}
	return w
}

// unready reports whether a pod declares that it is not ready.
func unready(p *corev1.Pod) bool {
	r := said.ReadinessOf(p)
	return r.Said && !r.Ready
}

// nameServices returns the Services that pods use for DNS.
func (c *Cluster) nameServices(ctx context.Context) ([]decide.DNSService, error) {
	var list corev1.ServiceList
	err := c.reader.List(ctx, &list, client.InNamespace(decide.DNSNamespace), client.MatchingLabels{decide.DNSLabel: decide.DNSValue})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	out := []decide.DNSService{}
	for i := range list.Items {
		spread := list.Items[i].Spec.TrafficDistribution
		out = append(out, decide.DNSService{
			Name: list.Items[i].Name, SameNode: spread != nil && *spread == corev1.ServiceTrafficDistributionPreferSameNode,
		})
	}
	return out, nil
}
