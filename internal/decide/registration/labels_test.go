package registration

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhichLabelsAKubeletMaySet(t *testing.T) {
	for label, want := range map[string]bool{
		"kubernetes.io/hostname": true, "kubernetes.io/arch": true, "kubernetes.io/os": true,
		"beta.kubernetes.io/arch": true, "beta.kubernetes.io/os": true, "beta.kubernetes.io/instance-type": true,
		"failure-domain.beta.kubernetes.io/zone": true, "failure-domain.beta.kubernetes.io/region": true,
		"topology.kubernetes.io/zone": true, "topology.kubernetes.io/region": true, "node.kubernetes.io/instance-type": true,
		"kubelet.kubernetes.io/x": true, "a.kubelet.kubernetes.io/x": true, "node.kubernetes.io/x": true, "a.node.kubernetes.io/x": true,
		"rack": true, "example.com/x": true, "mykubernetes.io/x": true, "notk8s.io/x": true,
		"kubernetes.io/x": false, "a.kubernetes.io/x": false, "k8s.io/x": false, "a.k8s.io/x": false,
		"node-role.kubernetes.io/control-plane": false, "node-restriction.kubernetes.io/x": false, "topology.kubernetes.io/x": false,
		"mynode.kubernetes.io/x": false,
	} {
		if got := own(label); got != want {
			t.Errorf("%s: %v", label, got)
		}
	}
}

func TestAControlPlaneInMaintenanceStaysInIt(t *testing.T) {
	n := known()
	n.Spec.Unschedulable, n.Spec.ProviderID = true, "metal://7"
	want := known()
	got := Decide(Input{Now: now, Known: n, Kubelet: true, Administrator: true, Retired: state.Known("")})
	if !got.Make.Spec.Unschedulable || got.Make.Spec.ProviderID != "metal://7" || got.Lost != nil {
		t.Errorf("%+v", got)
	}
	n.Spec.Unschedulable = false
	Decide(Input{Now: now, Known: n, Kubelet: true, Retired: state.Known("")}).Make.Labels["x"] = "y"
	if diff := cmp.Diff(want.Labels, n.Labels); diff != "" {
		t.Errorf("the Node and what is known are one: %s", diff)
	}
}

func TestAnAttemptCountsForItsTime(t *testing.T) {
	if got := Lately(nil, now); got != nil {
		t.Error(got)
	}
	if got := Lately(ago(Within, Within-1, 0), now); len(got) != 2 {
		t.Error(got)
	}
}

func TestANodeIsMadeAgainWithoutWhatItsKubeletMayNotSet(t *testing.T) {
	n := known()
	n.Spec.Taints[1].TimeAdded = n.Spec.Taints[0].TimeAdded
	got := Decide(Input{Now: now, Known: n, Kubelet: true, Retired: state.Known("")})
	for _, l := range got.Lost {
		if _, there := got.Make.Labels[l]; there {
			t.Errorf("%s is lost and set", l)
		}
	}
	if list := got.Make.Spec.Taints; len(list) != 1 || list[0].TimeAdded != nil {
		t.Errorf("a taint has the time of the Node that is gone: %+v", list)
	}
}
