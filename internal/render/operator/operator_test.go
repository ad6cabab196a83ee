package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestAJobMatchesTheApprovedFile(t *testing.T) {
	got, err := document.Marshal(Job(handover.Work{
		Step: twonode.Setup, Node: "cp-1", Name: "two-node-setup", Key: "5eed", Attempt: 2, Before: "no quorum",
	}, "d19e57"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "job.yaml", got)
}

func TestTheObjectsMatchTheApprovedFile(t *testing.T) {
	var all []byte
	for _, o := range append(Objects(), TwoNodeObjects()...) {
		data, err := document.Marshal(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "--- # "+o.File+"\n"...), data...)
	}
	golden.Check(t, "objects.yaml", all)
}

func TestEveryStepHasItsTime(t *testing.T) {
	for _, step := range handover.Steps() {
		limit := Job(handover.Work{Step: step}, "").Spec.ActiveDeadlineSeconds
		if limit == nil || *limit < 60 || *limit > 3600 {
			t.Errorf("%s: %v", step, limit)
		}
	}
}

func TestTheOperatorsPodDoesNotTakeAJobsPodForItsOwn(t *testing.T) {
	job := Job(handover.Work{Step: twonode.Auth}, "").Spec.Template.Labels
	for key, value := range labels() {
		if job[key] == value {
			t.Errorf("both have %s: %s", key, value)
		}
	}
}

func TestTheOperatorNeedsNeitherThePodNetworkNorARegistry(t *testing.T) {
	p := pod()
	if !p.HostNetwork || p.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("host network %v, pull policy %s", p.HostNetwork, p.Containers[0].ImagePullPolicy)
	}
	if j := jobPod(handover.Work{}, ""); !j.HostNetwork || j.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("a Job: host network %v, pull policy %s", j.HostNetwork, j.Containers[0].ImagePullPolicy)
	}
}

func TestAnInputsDigestTellsInputsApart(t *testing.T) {
	if a, b := InputDigest([]byte("a")), InputDigest([]byte("b")); a == b || len(a) != 64 {
		t.Errorf("%q and %q", a, b)
	}
}
