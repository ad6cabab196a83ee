package registration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	got := Decide(Input{Now: now, Known: n, Kubelet: true, ControlPlane: true})
	if !got.Make.Spec.Unschedulable || got.Make.Spec.ProviderID != "metal://7" || got.Lost != nil {
		t.Errorf("%+v", got)
	}
	n.Spec.Unschedulable = false
	Decide(Input{Now: now, Known: n, Kubelet: true}).Make.Labels["x"] = "y"
	if diff := cmp.Diff(want.Labels, n.Labels); diff != "" {
		t.Errorf("the Node and what is known are one: %s", diff)
	}
}

func TestThePauseIsOverWhenItsTimeIs(t *testing.T) {
	for want, ago := range map[bool]time.Duration{false: firstPause - 1, true: firstPause} {
		v := Decide(Input{Now: now, Known: known(), Kubelet: true, Made: []time.Time{now.Add(-ago)}})
		if (v.Make != nil) != want {
			t.Errorf("%s after the last one: %+v", ago, v)
		}
	}
	for times, want := range map[int]time.Duration{1: firstPause, 2: 2 * firstPause, 6: 8 * time.Minute, 7: lastPause, 1000: lastPause} {
		if got := Pause(times); got != want {
			t.Errorf("after %d: %s, want %s", times, got, want)
		}
	}
}

func TestAnAttemptCountsForAnHour(t *testing.T) {
	if got := Lately(nil, now); got != nil {
		t.Error(got)
	}
	for want, ago := range map[int]time.Duration{1: time.Hour, 0: time.Hour + 1} {
		if got := Lately([]time.Time{now.Add(-ago)}, now); len(got) != want {
			t.Errorf("%s ago: %v", ago, got)
		}
	}
}

func TestANodeIsMadeAgainWithoutWhatItsKubeletMayNotSet(t *testing.T) {
	n := known()
	n.Spec.Taints[1].TimeAdded = n.Spec.Taints[0].TimeAdded
	got := Decide(Input{Now: now, Known: n, Kubelet: true})
	for _, l := range got.Lost {
		if _, there := got.Make.Labels[l]; there {
			t.Errorf("%s is lost and set", l)
		}
	}
	if list := got.Make.Spec.Taints; len(list) != 1 || list[0].TimeAdded != nil {
		t.Errorf("a taint has the time of the Node that is gone: %+v", list)
	}
}
