package restore_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEachRuleSaysWhatHappensInPlace: a rule that left that open would let a plan of then act on hosts of
// now, and one that dropped their nodes would take a running site apart.
func TestEachRuleSaysWhatHappensInPlace(t *testing.T) {
	gone := map[string]bool{"plan": true, "plan-accounts": true, "upgrade": true}
	for _, r := range restore.Rules() {
		switch r.InPlace {
		case restore.Keep, restore.Look:
			if gone[r.Name] {
				t.Errorf("%s stays, and acts", r.Name)
			}
		case restore.Drop:
			if !gone[r.Name] {
				t.Errorf("%s is left out, though the hosts that it is of run", r.Name)
			}
		default:
			t.Errorf("%s: in place %q", r.Name, r.InPlace)
		}
	}
}

// TestNothingBeginsAtANodeThatIsRestoredInPlace keeps what the host says of itself, and the mark by which
// the operator takes its own cordon away.
func TestNothingBeginsAtANodeThatIsRestoredInPlace(t *testing.T) {
	stay := map[string]string{
		drain.CordonedBy: "drain-x", annotation.HostOf: "{}", rollout.RequiredWished: "kernel", rollout.Reboot: rollout.ByHand,
		etcdspace.WantedOf: "2026-11-01T00:00:00Z", state.AnnotationVIPs: "{}", "example.com/shelf": "left",
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Annotations: maps.Clone(stay)}}
	maps.Copy(n.Annotations, map[string]string{
		rollout.RebootWanted: "2026-11-01T00:00:00Z", rollout.RebootGiven: "x", rollout.RebootFrom: "x", rollout.PatchWanted: "2026-11-02T00:00:00Z",
		drain.Wanted: "2026-11-03T00:00:00Z", drain.Desired: drain.Before("rendered-x"), rollout.DesiredConfig: "rendered-x", rollout.RebootRequired: "yes",
		annotation.TurnOf: "{}", annotation.FetchOf: "{}", annotation.PartOf: "{}", state.AnnotationThirdPlane: "p", state.AnnotationTwoPlanes: "p",
		outofservice.Annotation: "cp-2 2026-11-01T00:00:00Z", state.AnnotationRenewal: `{"since":"2026-11-01T00:00:00Z"}`,
	})
	n.Spec.Taints = []corev1.Taint{{Key: outofservice.Key, Effect: corev1.TaintEffectNoExecute}, {Key: "till", Effect: corev1.TaintEffectNoSchedule}}
	var f restore.Found
	if !f.NodeInPlace(n) || !maps.Equal(n.Annotations, stay) || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "till" {
		t.Errorf("left are %v and %v", n.Annotations, n.Spec.Taints)
	}
	want := []string{"cp-1: " + drain.Wanted + "=2026-11-03T00:00:00Z", "cp-1: " + rollout.PatchWanted + "=2026-11-02T00:00:00Z", "cp-1: " + rollout.RebootWanted + "=2026-11-01T00:00:00Z"}
	if !slices.Equal(f.Wishes, want) {
		t.Errorf("told of %q, want %q", f.Wishes, want)
	}
	if f.NodeInPlace(n) {
		t.Error("a node without a wish is written")
	}
	theirs := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: outofservice.Key}}}}
	if f.NodeInPlace(theirs) || len(theirs.Spec.Taints) != 1 {
		t.Error("a taint that a person set is gone")
	}
}

// TestPodsThatEndByThemselvesAreLeftOutInPlace, and only those: kubelet would start them a second time.
func TestPodsThatEndByThemselvesAreLeftOutInPlace(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy]restore.Fate{
		corev1.RestartPolicyNever: restore.Drop, corev1.RestartPolicyOnFailure: restore.Drop, corev1.RestartPolicyAlways: restore.Keep, "": restore.Keep,
	} {
		var f restore.Found
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop"}, Spec: corev1.PodSpec{RestartPolicy: policy}}
		if got := f.PodInPlace(p); got != want || slices.Equal(f.LonePods, []string{"shop/a"}) != (want == restore.Drop) {
			t.Errorf("restartPolicy %s: %s, want %s; told of %v", policy, got, want, f.LonePods)
		}
	}
	over := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	if a, b := restore.StepInPlace(over), restore.StepInPlace(&batchv1.Job{}); a != restore.Keep || b != restore.Drop {
		t.Errorf("a step that has ended: %s; one that has not: %s", a, b)
	}
}

// TestNoUpgradeHasTheNumberOfOneThatCameAfterTheBackup: the journal of a host may know that one.
func TestNoUpgradeHasTheNumberOfOneThatCameAfterTheBackup(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		text   string
		want   int64
		wishes []string
	}{
		"with a wish":      {`{"metadata":{"generation":3},"spec":{"clusterID":"x","desiredUpdate":{"image":"sha256:ab"}}}`, now.Unix() + 1, []string{"upgrade: sha256:ab"}},
		"without one":      {`{"metadata":{"generation":3},"spec":{"clusterID":"x"}}`, now.Unix() + 1, nil},
		"the clock is old": {`{"metadata":{"generation":1900000000},"spec":{"clusterID":"x"}}`, 1900000001, nil},
	} {
		var object, after map[string]any
		if err := json.Unmarshal([]byte(c.text), &object); err != nil {
			t.Fatal(err)
		}
		var f restore.Found
		changed := f.VersionInPlace(object, now)
		text, err := json.Marshal(object)
		if err != nil || json.Unmarshal(text, &after) != nil {
			t.Fatal(err)
		}
		spec, generation := after["spec"].(map[string]any), after["metadata"].(map[string]any)["generation"]
		if _, wished := spec["desiredUpdate"]; !changed || wished || spec["clusterID"] != "x" || generation != float64(c.want) || !slices.Equal(f.Wishes, c.wishes) {
			t.Errorf("%s: %s, told of %q", what, text, f.Wishes)
		}
	}
}

// TestASecondFamilyThatHadNotBegunDoesNotBeginInPlace: somebody may have taken it back since, and once it
// has begun nobody can.
func TestASecondFamilyThatHadNotBegunDoesNotBeginInPlace(t *testing.T) {
	for plan, goes := range map[string]bool{
		`{"id":"p","machines":"2001:db8::/64"}`:              true,
		`{"id":"p","machines":"2001:db8::/64","begun":true}`: false,
		`not readable`: false,
		``:             false,
	} {
		annotations := map[string]any{state.AnnotationDomain + "readdress": "{}"}
		if plan != "" {
			annotations[state.AnnotationDualStack] = plan
		}
		var f restore.Found
		changed := f.InfrastructureInPlace(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		_, there := annotations[state.AnnotationDualStack]
		if changed != goes || there != (plan != "" && !goes) || annotations[state.AnnotationDomain+"readdress"] == nil || slices.Equal(f.Wishes, []string{"second family: 2001:db8::/64"}) != goes {
			t.Errorf("%q: changed %v, there %v, told of %q", plan, changed, there, f.Wishes)
		}
	}
	var f restore.Found
	if f.InfrastructureInPlace(map[string]any{}) {
		t.Error("an object without annotations is written")
	}
}
