package clusterhealth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

func list(cpu, memory string) corev1.ResourceList {
	out := make(corev1.ResourceList)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse(cpu), resource.MustParse(memory)
	return out
}

// pod returns a pod on a node whose controller is of the given kind.
func pod(node, kind string, wants ...corev1.ResourceList) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
	}
	for _, w := range wants {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: w}})
	}
	return p
}

func hosts() []corev1.Node {
	var out []corev1.Node
	for _, name := range []string{"cp-1", "cp-2", "w-1"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if name != "w-1" {
			n.Labels[state.LabelControlPlane] = ""
		}
		n.Status.Allocatable = list("4", "8Gi")
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		out = append(out, n)
	}
	return out
}

func TestFailoverCapacityCountsWhatAHostWouldHaveToRun(t *testing.T) {
	var l Load
	ended := pod("cp-1", "Job", list("64", "64Gi"))
	ended.Status.Phase = corev1.PodSucceeded
	for _, p := range []*corev1.Pod{
		pod("cp-1", "ReplicaSet", list("1", "1Gi"), list("500m", "1Gi")), // moves
		pod("cp-2", "ReplicaSet", list("2", "1Gi")),                      // moves
		pod("", "ReplicaSet", list("250m", "0")),                         // waits for a host
		pod("cp-1", "DaemonSet", list("100m", "0")),                      // each host has its own
		pod("cp-2", "Node", list("300m", "0")),                           // a static pod
		pod("w-1", "ReplicaSet", list("32", "32Gi")),                     // a worker's own
		ended,
	} {
		l.Add(p)
	}
	const gi = 1 << 30
	want := []Failover{
		{"cp-1", "cpu", 1.5 + 2 + 0.25 + 0.1, 4},
		{"cp-1", "memory", 3 * gi, 8 * gi},
		{"cp-1", "pods", 4, 110},
		{"cp-2", "cpu", 1.5 + 2 + 0.25 + 0.3, 4},
		{"cp-2", "memory", 3 * gi, 8 * gi},
		{"cp-2", "pods", 4, 110},
	}
	if diff := cmp.Diff(want, l.Failovers(hosts())); diff != "" {
		t.Error(diff)
	}
	if f := (&Load{}).Failovers(nil); f != nil {
		t.Errorf("no hosts: %+v", f)
	}
}

func TestAPodAsksForWhatTheSchedulerCounts(t *testing.T) {
	p := pod("", "", list("1", "1Gi"), list("1", "1Gi"))
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: list("3", "0")}},
		{Resources: corev1.ResourceRequirements{Requests: list("500m", "1Gi")}, RestartPolicy: &always},
		{Resources: corev1.ResourceRequirements{Requests: list("2600m", "0")}},
	}
	p.Spec.Overhead = list("100m", "0")
	got := requests(p)
	cpu, memory := got[corev1.ResourceCPU], got[corev1.ResourceMemory]
	if cpu.String() != "3200m" || memory.String() != "3Gi" { // cpu: the last init container and its sidecar; memory: the containers and the sidecar
		t.Errorf("cpu %s, memory %s", cpu.String(), memory.String())
	}
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1", "1Gi")}
	got = requests(p)
	cpu = got[corev1.ResourceCPU]
	if cpu.String() != "1100m" {
		t.Errorf("the pod as a whole: %s", cpu.String())
	}
}
