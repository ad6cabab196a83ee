package restore

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A restore in place brings etcd of running hosts back to a backup: their nodes stay. What the backup
// has of a plan, a turn or a wish is of a day that is over, and an agent cannot tell: to it a boot of
// then is a boot that somebody wants.

// wishesOfPeople are the annotations of a node by which people wish something. They are told to whoever
// restores.
func wishesOfPeople() []string {
	return []string{drain.Wanted, rollout.PatchWanted, rollout.RebootWanted, backup.WantedOf}
}

// oldOfNodes are the annotations of a node that a restore in place takes away: wishes and what was
// answered to them, turns that the operator gave, and plans that a host carries. Agents and the operator
// write anew what still holds. etcdspace.WantedOf stays, since it says itself that it is old.
func oldOfNodes() []string {
	return slices.Concat(wishesOfPeople(), annotation.GivenByOperator(), []string{
		rollout.RebootReason, rollout.RebootFrom, rollout.RebootGiven, rollout.RebootWaits, rollout.RebootDone,
		rollout.PatchReason, rollout.PatchFrom, rollout.PatchGiven, rollout.PatchWaits, rollout.PatchDone,
		rollout.RebootRequired,
		rollout.CurrentConfig, rollout.DesiredConfig, rollout.GivenAt, rollout.StateOf, rollout.ReasonOf, rollout.StageAt, rollout.BlockedOf,
		drain.Desired, drain.Applied, drain.Began, drain.Waits, drain.Had,
		state.AnnotationThirdPlane, state.AnnotationTwoPlanes,
		state.AnnotationRenewal, // a host that renews nothing does not say so, and every rotation would wait for it
	})
}

// NodeInPlace takes away from a node what would begin there, and the taint of a fence that is over. It
// leaves the operator's mark of its own cordon: without a wish the operator takes that cordon away.
func (f *Found) NodeInPlace(n *corev1.Node) (changed bool) {
	for _, key := range wishesOfPeople() {
		if wish := n.Annotations[key]; wish != "" {
			f.Wishes = append(f.Wishes, fmt.Sprintf("%s: %s=%s", n.Name, key, wish))
		}
	}
	for _, key := range oldOfNodes() {
		if _, has := n.Annotations[key]; has {
			delete(n.Annotations, key)
			changed = true
		}
	}
	if _, ours := n.Annotations[outofservice.Annotation]; ours {
		delete(n.Annotations, outofservice.Annotation)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == outofservice.Key })
		changed = true
	}
	return changed
}

// PodInPlace decides about a pod. One that ends by itself may have ended after the backup, and kubelet
// would start it a second time. Each other one runs, and stays.
func (f *Found) PodInPlace(p *corev1.Pod) Fate {
	if p.Spec.RestartPolicy != corev1.RestartPolicyNever && p.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return Keep
	}
	f.Pod(p)
	return Drop
}

// StepInPlace decides about a Job of the operator's own: of one that had not ended it makes another one.
func StepInPlace(j *batchv1.Job) Fate {
	if ended(j) {
		return Keep
	}
	return Drop
}

// VersionInPlace removes the wish of an upgrade, and makes the object another generation than all that
// this site has had. The journals of hosts know an upgrade by that number (clusterversion.UpgradeID): the
// next one must not have the number of one that came after the backup, or a host would take it for ended.
func (f *Found) VersionInPlace(object map[string]any, now time.Time) (changed bool) {
	if spec, ok := object["spec"].(map[string]any); ok {
		if update, ok := spec["desiredUpdate"].(map[string]any); ok {
			f.Wishes = append(f.Wishes, fmt.Sprintf("upgrade: %v", update["image"]))
		}
	}
	changed = Version(object)
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return changed
	}
	had, _ := metadata["generation"].(float64) // a number of JSON
	metadata["generation"] = max(int64(had), now.Unix()) + 1
	return true
}

// InfrastructureInPlace takes back the announcement of a second family that had not begun. One that had
// only goes forward. One that cannot be read begins nothing. An announced move stays: it begins only
// where hosts find themselves at the other place, and is what brings the objects to a site that has moved.
func (f *Found) InfrastructureInPlace(object map[string]any) (changed bool) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[state.AnnotationDualStack].(string)
	var plan dualstack.Plan
	if text == "" || json.Unmarshal([]byte(text), &plan) != nil || plan.Begun {
		return false
	}
	delete(annotations, state.AnnotationDualStack)
	f.Wishes = append(f.Wishes, "second family: "+plan.Machines)
	return true
}
