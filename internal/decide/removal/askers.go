package removal

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// askers says which pods ask for the host by its name. What makes them again would wait for that
// name for ever, and nothing shows it but a pod that is pending.
func (f Facts) askers() []string {
	if f.Node == nil {
		return nil
	}
	names := []string{f.Name, f.Node.Labels[corev1.LabelHostname]}
	var out []string
	for i := range f.Pods {
		if p := &f.Pods[i]; !boundToHosts(p) && asksForHost(p, names) {
			out = append(out, fmt.Sprintf("change what makes %s/%s: it asks for %s by its name, and starts nowhere else", p.Namespace, p.Name, f.Name))
		}
	}
	slices.Sort(out)
	return out
}

// boundToHosts reports whether a pod goes with its host anyway: one of a DaemonSet, or of a file on
// the host.
func boundToHosts(p *corev1.Pod) bool {
	c := controllerOf(p)
	return c == "DaemonSet" || c == "Node"
}

func controllerOf(p *corev1.Pod) string {
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return o.Kind
		}
	}
	return ""
}

func asksForHost(p *corev1.Pod, names []string) bool {
	if drain.Pinned(p) {
		return true
	}
	if asked, is := p.Spec.NodeSelector[corev1.LabelHostname]; is {
		return slices.Contains(names, asked)
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return !asksFor(t, names) })
}
