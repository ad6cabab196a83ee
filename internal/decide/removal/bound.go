package removal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/retired"
)

// Bound returns those of the pods bound to the name of a host without a Node for which its removal
// waits, and names the others for a person. Another deletion ends neither of those: a controller whose
// pods name the host makes them again each time, and a pod that only finalizers hold is deleted already.
// out is when the host was taken out, zero if nobody did that: then each pod may be one of before.
func Bound(pods []corev1.Pod, out time.Time) (hold []corev1.Pod, others []string) {
	for i := range pods {
		switch p := &pods[i]; {
		case finalized(p):
			others = append(others, fmt.Sprintf("pod %s/%s%s: it is deleted, and waits for %s", p.Namespace, p.Name, drain.Owned(p), strings.Join(p.Finalizers, ", ")))
		// The API counts in seconds: a pod of the same second may be one of before.
		case !out.IsZero() && p.CreationTimestamp.After(out.Truncate(time.Second)):
			others = append(others, fmt.Sprintf("pod %s/%s%s: it was made for that name after the host was taken out", p.Namespace, lasting(p), drain.Owned(p)))
		default:
			hold = append(hold, *p)
		}
	}
	slices.Sort(others)
	return hold, slices.Compact(others)
}

// finalized reports whether a pod is deleted and no kubelet has time left for it, so that it goes with
// its last finalizer.
func finalized(p *corev1.Pod) bool {
	left := p.DeletionGracePeriodSeconds
	return p.DeletionTimestamp != nil && (left == nil || *left == 0) && len(p.Finalizers) > 0
}

// lasting is the name of a pod without what its controller changes each time: who follows a plan would
// read another name every half minute.
func lasting(p *corev1.Pod) string {
	if p.GenerateName != "" && metav1.GetControllerOf(p) != nil {
		return p.GenerateName + "*"
	}
	return p.Name
}

// Since returns when the host of a name that has no Node was taken out; zero if nobody did that, or if
// a host got the name again long ago, so that what is left is of a later life of it.
func Since(list retired.List, name string, now time.Time) time.Time {
	h, listed := list.Of(name)
	if !listed || !h.Open() && now.Sub(h.Again) >= young {
		return time.Time{}
	}
	return h.When
}
