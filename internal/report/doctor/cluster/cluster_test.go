package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

var now = time.Date(2026, 11, 20, 3, 0, 0, 300_000_000, time.UTC)

func TestATimeToldToTheSecondBoundsTheOffset(t *testing.T) {
	// The answer took 100 ms. The server's clock is 2 s ahead, and showed :02.
	o, err := told("Fri, 20 Nov 2026 03:00:02 GMT", now, now.Add(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if want := (decide.Offset{Low: 1600 * time.Millisecond, High: 2700 * time.Millisecond}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if _, err := told("yesterday", now, now); err == nil {
		t.Error("what is no time bounds nothing")
	}
}

func TestAHostThatLooksWhileOneWaitsBoundsItsOffset(t *testing.T) {
	// 5 s of gathering, after 50 ms and before 30 ms of ssh, 7 s ahead.
	begin := now.Add(7*time.Second + 50*time.Millisecond)
	h := decide.Host{From: begin, To: begin.Add(5 * time.Second)}
	o := Between(h, now, now.Add(5080*time.Millisecond))
	if want := (decide.Offset{Low: 6970 * time.Millisecond, High: 7050 * time.Millisecond}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
}

func list(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: cores(cpu)}
}

func cores(cpu string) corev1.ResourceList {
	l := make(corev1.ResourceList)
	l[corev1.ResourceCPU] = resource.MustParse(cpu)
	return l
}

func TestRequestsAreCountedAsTheSchedulerDoes(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want int64
	}{
		"containers are added":      {corev1.PodSpec{Containers: []corev1.Container{{Resources: list("1")}, {Resources: list("500m")}}}, 1500},
		"the first ones take turns": {corev1.PodSpec{InitContainers: []corev1.Container{{Resources: list("3")}, {Resources: list("2")}}, Containers: []corev1.Container{{Resources: list("1")}}}, 3000},
		"one that stays is beside all": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Resources: list("1"), RestartPolicy: &always}, {Resources: list("3")}}, Containers: []corev1.Container{{Resources: list("1")}},
		}, 4000},
		"one that stays counts with the containers": {corev1.PodSpec{InitContainers: []corev1.Container{{Resources: list("1"), RestartPolicy: &always}}, Containers: []corev1.Container{{Resources: list("3")}}}, 4000},
		"what running it costs":                     {corev1.PodSpec{Overhead: cores("250m"), Containers: []corev1.Container{{Resources: list("1")}}}, 1250},
	} {
		if got := requests(&c.spec); got.CPU != c.want || got.Pods != 1 {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

func onHost(keys ...string) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for _, k := range keys {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: k, Operator: corev1.NodeSelectorOpIn, Values: []string{"cp-1"}}}})
	}
	return s
}

func TestAPodThatCannotRunElsewhereIsKnown(t *testing.T) {
	affinity := func(s *corev1.NodeSelector) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}}
	}
	two := onHost(hostname)
	two.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"cp-1", "cp-2"}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"a node selector of one host":  {corev1.PodSpec{NodeSelector: map[string]string{hostname: "cp-1"}}, true},
		"a node selector of a role":    {corev1.PodSpec{NodeSelector: map[string]string{"role": "db"}}, false},
		"an affinity to one host":      {affinity(onHost(hostname)), true},
		"an affinity to either host":   {affinity(two), false},
		"one host or another property": {affinity(onHost(hostname, "disk")), false},
		"one of two hosts":             {affinity(onHost(hostname, hostname)), false},
		"a volume on one host": {corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}}, true},
		"nothing": {corev1.PodSpec{}, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: c.spec}
		if got := stays(p, map[string]bool{"shop/data": true}); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAHostThatWorkloadsAreKeptFromCarriesNone(t *testing.T) {
	for name, c := range map[string]struct {
		spec corev1.NodeSpec
		want bool
	}{
		"open":                      {corev1.NodeSpec{}, false},
		"drained":                   {corev1.NodeSpec{Unschedulable: true}, true},
		"a control plane's taint":   {corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}}, true},
		"away for a moment":         {corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}}}, false},
		"a taint that only prefers": {corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectPreferNoSchedule}}}, false},
	} {
		if got := nodeOf(&corev1.Node{Spec: c.spec}); got.Closed != c.want {
			t.Errorf("%s: %v", name, got.Closed)
		}
	}
}
