package drain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/drain"
)

// TestM33M34APodWithALocalVolumeIsEvictedAndTheOneOfItsNameIsNotWaitedFor: its owner makes it again
// under the same name, and it waits without a host until this one is back, since its volume is
// there.
func TestM33M34APodWithALocalVolumeIsEvictedAndTheOneOfItsNameIsNotWaitedFor(t *testing.T) {
	s := newSite(t)
	pod := func() *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db-0", Labels: map[string]string{"app": "db-0"}},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false),
				Containers:                   []corev1.Container{{Name: "c", Image: "example.com/c"}},
				Volumes:                      []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}}},
			},
		}
		return p
	}
	first := pod()
	first.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "of-db-0", UID: s.owner("StatefulSet", first), Controller: new(true)}}
	s.bind(first)
	s.wish(drains)
	for range enough {
		must(t, errOf(s.look()))
		if s.kubelet(); len(s.pods()) == 0 {
			break
		}
	}
	if s.names() != "" {
		t.Fatalf("it is not evicted: %s", s.names())
	}
	next := pod()
	next.OwnerReferences = first.OwnerReferences
	must(t, s.admin.Create(t.Context(), next))
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains, decide.CordonedBy: drains})
	if s.names() != "db-0" {
		t.Errorf("there are %s", s.names())
	}
}
