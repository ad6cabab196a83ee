package ingress

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// draining returns a router that was deleted some time ago.
func draining(node string, ago, grace time.Duration) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "r", DeletionTimestamp: new(metav1.NewTime(day.Add(grace - ago))), DeletionGracePeriodSeconds: new(int64(grace / time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// TestHardCase17_ADeletionEndsWhereverItWasCutOff checks that the next step
// follows from the objects that exist, and that nothing waits for a host that
// never answers.
func TestHardCase17_ADeletionEndsWhereverItWasCutOff(t *testing.T) {
	here := deployed(counts{}, true)
	going := here.DeepCopy()
	going.DeletionTimestamp = new(metav1.NewTime(day))
	hosts := map[string]bool{"up": true, "down": false}
	const deployment, wait, rest, done = "deployment", "wait", "rest", "done"
	tests := []struct {
		sentence string
		o        Observed
		rest     int
		want     string
	}{
		{"the routers go first", Observed{Deployment: here}, 5, deployment},
		{"also in the middle of a roll-out", Observed{Deployment: here, Pods: []corev1.Pod{draining("up", 0, time.Hour)}}, 5, deployment},
		{"what leads to them stays while they drain", Observed{Pods: []corev1.Pod{draining("up", time.Minute, time.Hour)}}, 5, wait},
		{"one that nobody deletes is waited for", Observed{Pods: []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "up"}}}}, 5, wait},
		{"an hour's drain is granted", Observed{Pods: []corev1.Pod{draining("up", time.Hour, time.Hour)}}, 5, wait},
		{"and not much more", Observed{Pods: []corev1.Pod{draining("up", time.Hour+31*time.Second, time.Hour)}}, 5, rest},
		{"a router of a lost host says never that it is gone", Observed{Pods: []corev1.Pod{draining("down", 31*time.Second, time.Hour)}}, 5, rest},
		{"but for a moment it may still serve", Observed{Pods: []corev1.Pod{draining("down", 5*time.Second, time.Hour)}}, 5, wait},
		{"one that found no host is no router", Observed{Pods: []corev1.Pod{draining("", 0, 0)}}, 5, wait},
		{"one that ended does not count", Observed{Pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodFailed}}}}, 5, rest},
		{"then the rest", Observed{}, 5, rest},
		{"a part of the rest too", Observed{}, 1, rest},
		{"then it is done", Observed{}, 0, done},
		{"not before the Deployment is really gone", Observed{Deployment: going}, 0, ""},
	}
	for _, tt := range tests {
		tt.o.Hosts = hosts
		d := Delete(tt.o, tt.rest, day)
		got := ""
		switch {
		case d.Deployment:
			got = deployment
		case len(d.Waiting) > 0:
			got = wait
		case d.Rest:
			got = rest
		case d.Done:
			got = done
		}
		if got != tt.want || !d.Done && d.Again == 0 {
			t.Errorf("%s: %q (%s), want %q", tt.sentence, got, fmt.Sprintf("%+v", d), tt.want)
		}
	}
}
