package registration

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func known() *corev1.Node {
	added := metav1.NewTime(now)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "cp-2", UID: "old", ResourceVersion: "12", Finalizers: []string{"x"},
			Labels: map[string]string{
				"kubernetes.io/hostname": "cp-2", "holdfast.io/role": "master", "rack": "7", "node-role.kubernetes.io/control-plane": "",
				"node-restriction.kubernetes.io/pci": "", "example.com/db": "",
			},
			Annotations: map[string]string{"flannel.alpha.coreos.com/backend-data": "{}"},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.128.2.0/24", PodCIDRs: []string{"10.128.2.0/24", "fd44:0:0:2::/64"},
			Taints: []corev1.Taint{
				{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added},
				{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
			},
		},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b"}},
	}
}

func TestANodeIsMadeAgainWhereARunningKubeletHasLostIt(t *testing.T) {
	cordoned := known()
	cordoned.Spec.Unschedulable = true
	drained := cordoned.DeepCopy()
	drained.Annotations = map[string]string{drain.CordonedBy: drain.Before("rendered-worker-1")}
	for _, c := range []struct {
		name string
		in   Input
		made bool
	}{
		{"it was deleted", Input{Known: known(), Kubelet: true, ControlPlane: true}, true},
		{"a worker's was", Input{Known: known(), Kubelet: true}, true},
		{"it is there", Input{Listed: true, Known: known(), Kubelet: true}, false},
		{"the host was none yet", Input{Kubelet: true, ControlPlane: true}, false},
		{"kubelet is down and registers by itself", Input{Known: known(), ControlPlane: true}, false},
		{"a worker is taken out", Input{Known: cordoned, Kubelet: true}, false},
		{"a worker whose pods move before it boots", Input{Known: drained, Kubelet: true}, true},
		{"a control plane in maintenance", Input{Known: cordoned, Kubelet: true, ControlPlane: true}, true},
		{"just made", Input{Known: known(), Kubelet: true, Made: []time.Time{now.Add(-5 * time.Second)}}, false},
		{"made a while ago", Input{Known: known(), Kubelet: true, Made: []time.Time{now.Add(-20 * time.Second)}}, true},
		{"made twice", Input{Known: known(), Kubelet: true, Made: []time.Time{now.Add(-40 * time.Second), now.Add(-20 * time.Second)}}, false},
	} {
		c.in.Now = now
		if v := Decide(c.in); (v.Make != nil) != c.made || (v.Why == "") != c.made {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestANodeIsMadeAgainAsItWas(t *testing.T) {
	got := Decide(Input{Now: now, Known: known(), Kubelet: true, ControlPlane: true}).Make
	want := known()
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	want.UID, want.ResourceVersion, want.Finalizers, want.Status = "", "", nil, corev1.NodeStatus{}
	want.Spec.Taints = want.Spec.Taints[1:]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// NodeRestriction refuses the whole Node for one label that kubelet may not set.
func TestAWorkerMakesItsNodeWithTheLabelsThatAKubeletMaySet(t *testing.T) {
	v := Decide(Input{Now: now, Known: known(), Kubelet: true})
	if !slices.Equal(v.Lost, []string{"node-restriction.kubernetes.io/pci", "node-role.kubernetes.io/control-plane"}) {
		t.Errorf("%q", v.Lost)
	}
	for _, l := range []string{"kubernetes.io/hostname", "holdfast.io/role", "rack", "example.com/db"} {
		if _, ok := v.Make.Labels[l]; !ok {
			t.Errorf("%s is lost", l)
		}
	}
}

func TestWhoDeletesANodeAgainAndAgainIsNotRaced(t *testing.T) {
	if Pause(1) != 15*time.Second || Pause(3) != time.Minute || Pause(50) != lastPause {
		t.Error(Pause(1), Pause(3), Pause(50))
	}
	made := []time.Time{now.Add(-2 * time.Hour), now.Add(-61 * time.Minute)}
	if len(Lately(made, now)) != 0 || len(Lately(made, now.Add(-2*time.Minute))) != 2 {
		t.Error("an hour of rest")
	}
}
