package removal

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// Plan describes a removal to the person who decides about it.
type Plan struct {
	// Steps are sentences, in the order of the steps.
	Steps []string
	// Moves names the pods that would move to other hosts, InTheWay the pods that would
	// be in the way.
	Moves    []string
	InTheWay string
	// Lost names the volumes whose data are lost with the host.
	Lost []string
	// After says what a person has to do next.
	After []string
}

// Foresee returns the plan of a removal, from its present state on.
func Foresee(f Facts) Plan {
	out := Plan{Lost: f.lost(), After: slices.Concat(f.askers(), f.after())}
	_, marked := f.entry()
	if f.empties() {
		p := drain.Foresee(f.drained())
		out.Moves, out.InTheWay = p.Moves, p.InTheWay
		out.Steps = append(out.Steps, fmt.Sprintf("move the pods of %s to other hosts (%d), with respect for disruption budgets", f.Name, len(p.Moves)))
	}
	if f.unheard() {
		out.Steps = []string{"write in ConfigMap kube-system/holdfast-retired that " + f.Name + " was taken out, though the cluster knows nothing of that name: compare how it is written. No host of that name comes in until a person gives it again (holdfast host add)"}
		return out
	}
	if !marked {
		out.Steps = append(out.Steps, "write in ConfigMap kube-system/holdfast-retired that "+f.Name+" was taken out; until the name is given again nothing makes its Node again")
	}
	if f.Node != nil && f.Off && f.holds() {
		out.Steps = append(out.Steps, fmt.Sprintf("tell Kubernetes that %s is off (node.kubernetes.io/out-of-service), so that its pods (%d) and volumes (%d) move", f.Name, len(f.Pods), len(f.Attachments)))
	}
	if f.Node != nil {
		out.Steps = append(out.Steps, "delete Node "+f.Name+", if it is still the one with UID "+string(f.Node.UID))
	}
	out.Steps = append(out.Steps, "delete what is left under its name: pods, volume attachments, its Lease, its bootstrap tokens")
	return out
}

// after says what a person has to do, since the cluster cannot: it revokes no certificate.
func (f Facts) after() []string {
	if f.Off {
		return []string{
			"do not switch " + f.Name + " on in this network before its disk is wiped or destroyed: its certificates stay valid until they end, and its pods would start again",
			"if somebody else may have its disk: holdfast ca rotate",
		}
	}
	return []string{
		"the host itself goes on until it is wiped: sudo holdfast-agent wipe, on " + f.Name,
	}
}

// lost names the volumes whose data are only on the host.
func (f Facts) lost() []string {
	if f.Node == nil {
		return nil
	}
	names := []string{f.Name, f.Node.Labels[corev1.LabelHostname]}
	var out []string
	for i := range f.Volumes {
		if v := &f.Volumes[i]; OnlyOn(v, names...) {
			out = append(out, volume(v))
		}
	}
	slices.Sort(out)
	return out
}

func volume(v *corev1.PersistentVolume) string {
	text := "PersistentVolume " + v.Name
	if c := v.Spec.ClaimRef; c != nil {
		text += " (of claim " + c.Namespace + "/" + c.Name + ")"
	}
	return text
}

// OnlyOn reports whether every term of a volume's affinity asks for the host of these names.
func OnlyOn(v *corev1.PersistentVolume, names ...string) bool {
	a := v.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) == 0 {
		return false
	}
	return !slices.ContainsFunc(a.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return !asksFor(t, names) })
}

func asksFor(t corev1.NodeSelectorTerm, names []string) bool {
	return slices.ContainsFunc(slices.Concat(t.MatchExpressions, t.MatchFields), func(r corev1.NodeSelectorRequirement) bool {
		return (r.Key == corev1.LabelHostname || r.Key == "metadata.name") && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 &&
			!slices.ContainsFunc(r.Values, func(v string) bool { return !slices.Contains(names, v) })
	})
}
