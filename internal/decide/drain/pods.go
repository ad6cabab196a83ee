package drain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// pods are those of a host, by what becomes of them.
type pods struct {
	// evict are evicted now. critical follow once no other pod is left: others need
	// them for as long as they run.
	evict, critical []corev1.Pod
	// ending are on their way out.
	ending []corev1.Pod
	// alone have nobody who would make them again. They are left to a person,
	// because an eviction would be their end.
	alone []corev1.Pod
	// left counts the pods that stay on a host: those of DaemonSets and of files, and
	// the pod that carries drains out. Those that have finished do not count.
	left int
}

// sorted sorts the pods of a host by what becomes of them. Volumes of the kind
// emptyDir go with their pod, for which kubectl drain wants a flag; pods that have
// finished stay, because they keep nobody from a boot.
func (f Facts) sorted() pods {
	var p pods
	for _, pod := range f.Pods {
		switch owner := metav1.GetControllerOf(&pod); {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case stays(pod, owner) || name(pod) == f.Own:
			p.left++
		case pod.DeletionTimestamp != nil:
			p.ending = append(p.ending, pod)
		case owner == nil:
			p.alone = append(p.alone, pod)
		case critical(pod):
			p.critical = append(p.critical, pod)
		default:
			p.evict = append(p.evict, pod)
		}
	}
	if len(p.evict)+len(p.ending)+len(p.alone) == 0 {
		p.evict, p.critical = p.critical, nil
	}
	slices.SortFunc(p.evict, func(a, b corev1.Pod) int { return cmp.Compare(name(a).String(), name(b).String()) })
	return p
}

// stays reports whether a pod belongs to its host: it would come back there at
// once.
func stays(pod corev1.Pod, owner *metav1.OwnerReference) bool {
	_, ofFile := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ofFile || owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1" || Pinned(&pod)
}

// Pinned reports whether a controller makes a pod with its host in spec.nodeName. No cordon keeps the next
// one away: it comes back there each time. A pod that the scheduler gave a host has the same field, and only
// the one who made a pod is noted with it: the binding is not.
func Pinned(pod *corev1.Pod) bool {
	return metav1.GetControllerOf(pod) != nil && slices.ContainsFunc(pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, named := fields.Spec["f:nodeName"]
		return named
	})
}

// critical reports whether a pod has one of Kubernetes' two highest priorities.
func critical(pod corev1.Pod) bool {
	return pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical"
}

func name(pod corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// late is the time that a pod may end later than it was to.
const late = 30 * time.Second

// most is the number of pods that are named.
const most = 5

// waits says who is in the way: which pod, whose, and why. It is empty while pods
// go.
func (f Facts) waits(p pods) string {
	var out []string
	if len(p.evict)+len(p.critical) > 0 && f.nobody() {
		out = append(out, f.whyNobody())
	}
	for _, pod := range p.alone {
		out = append(out, name(pod).String()+": nobody would make it again elsewhere; delete it, or move it yourself")
	}
	for _, pod := range slices.Concat(p.evict, p.critical) {
		if why := f.Refused[pod.UID]; why != "" {
			out = append(out, named(pod)+": "+f.because(pod, why))
		}
	}
	for _, pod := range p.ending {
		if until := pod.DeletionTimestamp.Time; f.Now.Sub(until) > late {
			out = append(out, fmt.Sprintf("%s: it was to end by %s and has not%s", named(pod), until.UTC().Format(time.RFC3339), held(pod)))
		}
	}
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, "; ")
}

// named returns a pod with its owner.
func named(pod corev1.Pod) string {
	return name(pod).String() + Owned(&pod)
}

// Owned names the controller of a pod, to stand behind the pod's name; empty for none.
func Owned(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf(" (of %s %s)", owner.Kind, owner.Name)
	}
	return ""
}

// held names what keeps a pod that has ended in the API.
func held(pod corev1.Pod) string {
	if len(pod.Finalizers) == 0 {
		return ""
	}
	return "; it waits for " + strings.Join(pod.Finalizers, ", ")
}

// because says why a pod was not evicted: by its budgets, if one of them says so,
// or else in the API's words.
func (f Facts) because(pod corev1.Pod, why string) string {
	of := f.budgetsOf(pod)
	switch {
	case len(of) > 1:
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		slices.Sort(names)
		return "several PodDisruptionBudgets select it (" + strings.Join(names, ", ") + "), and the API evicts no such pod; leave one of them"
	case len(of) == 1 && of[0].Status.DisruptionsAllowed == 0:
		s := of[0].Status
		return fmt.Sprintf("PodDisruptionBudget %s lets none go: of %d pods %d are ready, and %d have to be", of[0].Name, s.ExpectedPods, s.CurrentHealthy, s.DesiredHealthy)
	default:
		return why
	}
}

// budgetsOf returns the budgets that are about a pod.
func (f Facts) budgetsOf(pod corev1.Pod) []policyv1.PodDisruptionBudget {
	var of []policyv1.PodDisruptionBudget
	for _, b := range f.Budgets {
		if b.Namespace == pod.Namespace && selects(b, pod) {
			of = append(of, b)
		}
	}
	return of
}

// selects reports whether a budget is about a pod. An empty selector is about all
// of its namespace.
func selects(b policyv1.PodDisruptionBudget, pod corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// Preview is what a drain of a host would do now.
type Preview struct {
	// Moves names the pods that other hosts would get, and Stays counts those that
	// belong to the host.
	Moves []string
	Stays int
	// InTheWay says who would be in the way, and why.
	InTheWay string
	// Nowhere is true if no other host takes pods, so that none is evicted.
	Nowhere bool
	// AllCordoned says that each other host that would take pods is cordoned, and what frees
	// them; empty if one is not.
	AllCordoned string
}

// Foresee returns what a drain would do, by the budgets as they are now. Nothing is
// evicted.
func Foresee(f Facts) Preview {
	p := f.sorted()
	out := Preview{Stays: p.left, Nowhere: f.nowhere(), AllCordoned: f.allCordoned()}
	if out.Nowhere {
		return out
	}
	f.Refused = map[types.UID]string{}
	for _, pod := range slices.Concat(p.evict, p.critical) {
		out.Moves = append(out.Moves, named(pod))
		of := f.budgetsOf(pod)
		if len(of) > 1 || len(of) == 1 && of[0].Status.DisruptionsAllowed == 0 {
			f.Refused[pod.UID] = "its budgets"
		}
	}
	slices.Sort(out.Moves)
	out.InTheWay = f.waits(p)
	return out
}
