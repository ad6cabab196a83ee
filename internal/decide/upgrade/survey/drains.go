package survey

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// longGrace is the time for its end from which on a pod counts as one that no drain
// moves.
const longGrace = 10 * time.Minute

// Budgets names the disruption budgets that let no pod go.
func Budgets(list []policyv1.PodDisruptionBudget) []string {
	out := []string{}
	for _, b := range list {
		if s := b.Status; s.ExpectedPods > 0 && s.DisruptionsAllowed == 0 {
			out = append(out, fmt.Sprintf("%s/%s (of %d pods %d are ready, and %d have to be)", b.Namespace, b.Name, s.ExpectedPods, s.CurrentHealthy, s.DesiredHealthy))
		}
	}
	slices.Sort(out)
	return out
}

// Immovable names the pods that end where their host is drained, or take very long.
func Immovable(list []corev1.Pod) []string {
	out := []string{}
	for _, p := range list {
		owner := metav1.GetControllerOf(&p)
		_, ofFile := p.Annotations[corev1.MirrorPodAnnotationKey]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		grace := p.Spec.TerminationGracePeriodSeconds
		switch {
		case ofFile || ended || owner != nil && owner.Kind == "DaemonSet":
		case owner == nil:
			out = append(out, p.Namespace+"/"+p.Name+" (nobody would make it again)")
		case grace != nil && time.Duration(*grace)*time.Second > longGrace:
			out = append(out, fmt.Sprintf("%s/%s (it takes up to %d s to end)", p.Namespace, p.Name, *grace))
		}
	}
	slices.Sort(out)
	return out
}

// Webhook is a webhook of either kind.
type Webhook struct {
	Name     string
	Failure  *admissionv1.FailurePolicyType
	Client   admissionv1.WebhookClientConfig
	Selector *metav1.LabelSelector
	Rules    []admissionv1.RuleWithOperations
	// Converts is true for one that converts objects of a kind. Without it nobody reads
	// them, so that collectors of garbage and deletions of namespaces wait for it, too.
	Converts bool
}

// written are the kinds that an upgrade writes: whoever refuses them holds it.
var written = map[string][]string{
	"": {"nodes", "nodes/status", "pods", "pods/eviction", "configmaps", "secrets", "events"}, "apps": {"deployments", "daemonsets"},
	"coordination.k8s.io": {"leases"}, "config.openshift.io": {"clusterversions", "clusterversions/status", "clusteroperators", "clusteroperators/status"},
	"rbac.authorization.k8s.io": {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
}

// ofNoNamespace are those of them that no selector of namespaces leaves out.
var ofNoNamespace = []string{"nodes", "nodes/status", "clusterversions", "clusterversions/status", "clusteroperators", "clusteroperators/status", "clusterroles", "clusterrolebindings"}

// FailClosed names the webhooks that refuse what an upgrade writes while one host is
// away: they fail closed, and all pods that serve them are on one host. On a site with one
// host that tells nothing.
func FailClosed(hooks []Webhook, serving []discoveryv1.EndpointSlice, hosts int) []string {
	out := []string{}
	for _, h := range hooks {
		if hosts < 2 || h.Client.Service == nil || h.Failure != nil && *h.Failure == admissionv1.Ignore || !h.concerns() {
			continue
		}
		on := sets.New[string]()
		for _, s := range serving {
			if s.Namespace != h.Client.Service.Namespace || s.Labels[discoveryv1.LabelServiceName] != h.Client.Service.Name {
				continue
			}
			for _, e := range s.Endpoints {
				if e.NodeName != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					on.Insert(*e.NodeName)
				}
			}
		}
		switch on.Len() {
		case 0:
			out = append(out, h.Name+" (no pod serves it)")
		case 1:
			out = append(out, h.Name+" (on "+sets.List(on)[0]+")")
		}
	}
	slices.Sort(out)
	return out
}

// concerns reports whether a webhook is asked about what an upgrade writes.
func (h Webhook) concerns() bool {
	if h.Converts {
		return true
	}
	system := systemIs(h.Selector)
	for _, r := range h.Rules {
		for group, resources := range written {
			if !slices.Contains(r.APIGroups, "*") && !slices.Contains(r.APIGroups, group) {
				continue
			}
			for _, resource := range resources {
				if matches(r.Resources, resource) && (system || slices.Contains(ofNoNamespace, resource)) {
					return true
				}
			}
		}
	}
	return false
}

func matches(rules []string, resource string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool { return rule == resource || rule == "*" || rule == "*/*" })
}

// systemIs reports whether a selector of namespaces selects Kubernetes' own one.
func systemIs(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || s.Matches(labels.Set{corev1.LabelMetadataName: metav1.NamespaceSystem})
}
