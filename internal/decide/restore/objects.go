package restore

import (
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of objects that a restore changed. Each holds the former value, so that a
// person or a command can restore it.
const (
	// SuspendedOf is on a CronJob or a Job that was not suspended before.
	SuspendedOf = "holdfast.io/restore-suspended"
	// ReclaimOf is on a PersistentVolume whose data would have been deleted.
	ReclaimOf = "holdfast.io/restore-reclaim-policy"
)

// Found lists, apart from keys that were left out, what a person has to look at. Names are
// NAMESPACE/NAME, or NAME for objects without a namespace.
type Found struct {
	// Nodes are the nodes of the backup, with the labels and taints that people gave
	// them.
	Nodes []Node `json:"nodes,omitempty"`
	// LonePods are pods without a controller: nothing makes them again.
	LonePods []string `json:"lonePods,omitempty"`
	// Suspended are CronJobs that the restore suspended. They run again once a person says so.
	Suspended []string `json:"suspended,omitempty"`
	// SuspendedJobs are Jobs that had not ended at the backup. Kubernetes starts pods of them anew once a
	// person says so.
	SuspendedJobs []string `json:"suspendedJobs,omitempty"`
	// Retained are volumes that are no longer deleted with their claims.
	Retained []string `json:"retained,omitempty"`
	// Local are volumes on the disk of a former host.
	Local []string `json:"local,omitempty"`
	// Webhooks are configurations whose webhooks refuse requests while their pods are away.
	Webhooks []string `json:"webhooks,omitempty"`
	// Wishes are those of people that a restore in place took away: whoever still wants one wishes it anew.
	Wishes []string `json:"wishes,omitempty"`
	// Retired are hosts that were taken out of the cluster, and stay out; also names that were given
	// again, until a host of that name joins.
	Retired []string `json:"retired,omitempty"`
	// GivenAgain are names of such hosts that control planes of the restored site have.
	GivenAgain []string `json:"givenAgain,omitempty"`
	// Administrators are bindings of further administrators whose kubeconfigs had not ended at
	// the restore. A person may have deleted one after the backup.
	Administrators []string `json:"administrators,omitempty"`
}

// Node describes a node of the backup.
type Node struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []string          `json:"taints,omitempty"`
}

// Pod notes a pod without a controller. Every pod is left out, since its kubelet is gone.
func (f *Found) Pod(p *corev1.Pod) {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if metav1.GetControllerOf(p) == nil && !mirror && !over {
		f.LonePods = append(f.LonePods, name(p.ObjectMeta))
	}
}

// CronJob suspends a CronJob, and reports whether it changed.
func (f *Found) CronJob(c *batchv1.CronJob) (changed bool) {
	return suspend(&c.ObjectMeta, &c.Spec.Suspend, &f.Suspended)
}

// Job suspends a Job that has not ended, and reports whether it changed. It may have ended after the
// backup, and its pods are left out: its controller would start it a second time. The Job of a CronJob is
// no other: a CronJob that is suspended begins no Job, and leaves those that have begun alone.
func (f *Found) Job(j *batchv1.Job) (changed bool) {
	return !ended(j) && suspend(&j.ObjectMeta, &j.Spec.Suspend, &f.SuspendedJobs)
}

func ended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// suspend sets the field of an object and lists it, unless a person suspended it before.
func suspend(m *metav1.ObjectMeta, field **bool, list *[]string) (changed bool) {
	if *field != nil && **field {
		return false
	}
	*field = new(true)
	annotate(m, SuspendedOf, "false")
	*list = append(*list, name(*m))
	return true
}

// Volume keeps the data of a volume, and reports whether it changed.
func (f *Found) Volume(v *corev1.PersistentVolume) (changed bool) {
	if v.Spec.Local != nil || v.Spec.HostPath != nil {
		f.Local = append(f.Local, v.Name)
	}
	was := v.Spec.PersistentVolumeReclaimPolicy
	if was == corev1.PersistentVolumeReclaimRetain {
		return false
	}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	annotate(&v.ObjectMeta, ReclaimOf, string(was))
	f.Retained = append(f.Retained, v.Name)
	return true
}

// Validating notes webhooks that refuse requests while their pods are away.
func (f *Found) Validating(c *admissionv1.ValidatingWebhookConfiguration) {
	for _, w := range c.Webhooks {
		if strict(w.FailurePolicy) {
			f.Webhooks = append(f.Webhooks, "validating "+c.Name)
			return
		}
	}
}

// Mutating notes webhooks that refuse requests while their pods are away.
func (f *Found) Mutating(c *admissionv1.MutatingWebhookConfiguration) {
	for _, w := range c.Webhooks {
		if strict(w.FailurePolicy) {
			f.Webhooks = append(f.Webhooks, "mutating "+c.Name)
			return
		}
	}
}

// TakenOut removes the names of control planes of the restored site from the list of hosts that were
// taken out, and reports whether it changed: the first of them registers itself before anybody could
// close its entry. The other names are out. One that was given again before the backup is out anew: its
// Node is left out, and the former machine of that name would make it. A host that joins by a token
// closes the entry. One that cannot be read stays: its name is out.
func (f *Found) TakenOut(list *corev1.ConfigMap, controlPlanes []string) (changed bool) {
	known, _ := retired.Read(list.Data)
	for _, host := range slices.Sorted(maps.Keys(list.Data)) {
		entry, readable := known.Of(host)
		if slices.Contains(controlPlanes, host) {
			f.GivenAgain = append(f.GivenAgain, host)
			delete(list.Data, host)
			changed = true
			continue
		}
		f.Retired = append(f.Retired, host)
		if readable && !entry.Open() {
			entry.Again = time.Time{}
			if text, err := entry.Marshal(); err == nil {
				list.Data[host], changed = text, true
			}
		}
	}
	return changed
}

// Administrator notes a binding of a further administrator, unless its kubeconfig has ended. One
// that does not say when it ends is noted.
func (f *Found) Administrator(b *rbacv1.ClusterRoleBinding, now time.Time) {
	if ends, err := time.Parse(time.RFC3339, b.Annotations[state.AnnotationExpires]); err == nil && now.After(ends) {
		return
	}
	f.Administrators = append(f.Administrators, b.Name)
}

func strict(p *admissionv1.FailurePolicyType) bool { return p == nil || *p == admissionv1.Fail }

// Node notes a node of the backup.
func (f *Found) Node(n *corev1.Node) {
	out := Node{Name: n.Name, Labels: map[string]string{}}
	for key, value := range n.Labels {
		if !byKubernetes(key) {
			out.Labels[key] = value
		}
	}
	for _, t := range n.Spec.Taints {
		if !byKubernetes(t.Key) {
			out.Taints = append(out.Taints, t.ToString())
		}
	}
	f.Nodes = append(f.Nodes, out)
}

// Version removes the wish of an upgrade from a ClusterVersion, and reports whether there was
// one.
func Version(object map[string]any) (changed bool) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return false
	}
	if _, wished := spec["desiredUpdate"]; !wished {
		return false
	}
	delete(spec, "desiredUpdate")
	return true
}

func annotate(m *metav1.ObjectMeta, key, value string) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[key] = value
}

func name(m metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}
