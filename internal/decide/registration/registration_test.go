package registration

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
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
		rule string
	}{
		{"it was deleted", Input{Known: known(), Kubelet: true, Administrator: true}, "make"},
		{"a worker's was", Input{Known: known(), Kubelet: true, Worker: true}, "make"},
		{"it is there", Input{Listed: true, Known: known(), Kubelet: true}, "listed"},
		{"the host was none yet", Input{Kubelet: true, Administrator: true}, "never-seen"},
		{"kubelet is down and registers by itself", Input{Known: known(), Administrator: true}, "no-kubelet"},
		{"a worker is taken out by hand", Input{Known: cordoned, Kubelet: true, Worker: true}, "cordoned-worker"},
		{"a worker whose pods move before it boots", Input{Known: drained, Kubelet: true, Worker: true}, "make"},
		{"a control plane in maintenance", Input{Known: cordoned, Kubelet: true, Administrator: true}, "make"},
		{"just made", Input{Known: known(), Kubelet: true, Made: ago(Apart - 1)}, "just-made"},
		{"made a while ago", Input{Known: known(), Kubelet: true, Made: ago(Apart)}, "make"},
		{"made three times", Input{Known: known(), Kubelet: true, Made: ago(Within-1, time.Minute, Apart)}, "again-and-again"},
		{"made twice in the window", Input{Known: known(), Kubelet: true, Made: ago(Within, time.Minute, Apart)}, "make"},
		{"another control plane's, and its host has its turn", Input{Known: known(), Kubelet: true, Administrator: true, Peer: true, Gone: Turn - 1}, "its-turn"},
		{"another control plane's, and its host did not make it", Input{Known: known(), Kubelet: true, Administrator: true, Peer: true, Gone: Turn}, "make"},
		{"another control plane's, which is dead", Input{Known: known(), Administrator: true, Peer: true, Gone: time.Hour}, "no-kubelet"},
	} {
		c.in.Now, c.in.Retired = now, state.Known("")
		v := Decide(c.in)
		if v.Rule != c.rule || (v.Make != nil) != (c.rule == "make") || (v.Why == "") != (c.rule == "make") || v.Tell != (c.rule == "again-and-again") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// ago returns the times that are so long ago.
func ago(list ...time.Duration) []time.Time {
	var out []time.Time
	for _, d := range list {
		out = append(out, now.Add(-d))
	}
	return out
}

// L30: nobody makes the Node again of a host that is being taken out.
func TestANodeOfARetiredHostIsNeverMadeAgain(t *testing.T) {
	for rule, retired := range map[string]state.Fact[string]{
		"retired": state.Known("by admin at 12:00"), "retired-unknown": {}, "make": state.Known(""),
	} {
		for _, peer := range []bool{false, true} {
			in := Input{Now: now, Known: known(), Kubelet: true, Administrator: true, Peer: peer, Gone: time.Hour, Retired: retired}
			if v := Decide(in); v.Rule != rule {
				t.Errorf("%+v: %+v", retired, v)
			}
		}
	}
}

func TestANodeIsMadeAgainAsItWas(t *testing.T) {
	got := Decide(Input{Now: now, Known: known(), Kubelet: true, Administrator: true, Retired: state.Known("")}).Make
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
	v := Decide(Input{Now: now, Known: known(), Kubelet: true, Worker: true, Retired: state.Known("")})
	if !slices.Equal(v.Lost, []string{"node-restriction.kubernetes.io/pci", "node-role.kubernetes.io/control-plane"}) {
		t.Errorf("%q", v.Lost)
	}
	for _, l := range []string{"kubernetes.io/hostname", "holdfast.io/role", "rack", "example.com/db"} {
		if _, ok := v.Make.Labels[l]; !ok {
			t.Errorf("%s is lost", l)
		}
	}
}

// L28: three repairs in ten minutes, whatever somebody does.
func TestWhoDeletesANodeAgainAndAgainIsNotRaced(t *testing.T) {
	var made []time.Time
	for at := now; at.Before(now.Add(time.Hour)); at = at.Add(time.Second) {
		in := Input{Now: at, Known: known(), Kubelet: true, Administrator: true, Retired: state.Known(""), Made: made}
		if Decide(in).Make != nil {
			made = append(made, at)
		}
	}
	for i := range made {
		if i >= Most && made[i].Sub(made[i-Most]) < Within {
			t.Errorf("%d in %s", Most+1, made[i].Sub(made[i-Most]))
		}
	}
	if len(made) != 6*Most {
		t.Errorf("%d times in an hour", len(made))
	}
}
