package etcdmanifest

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// The files in testdata are what the kubeadm of this release has made.
func TestKubeletGetsTheVeryPodThatKubeadmMakes(t *testing.T) {
	for file, quota := range map[string]etcdpod.Quota{"etcd.yaml": etcdpod.OwnQuota, "etcd-quota.yaml": 4} {
		made, err := os.ReadFile("../kubeadm/testdata/made/" + file)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := Static(Node{"cp-1", netip.MustParseAddr("10.98.0.11")}, payload.Image("etcd"), quota)
		if err != nil {
			t.Fatal(err)
		}
		var want, got corev1.Pod
		if err := yaml.UnmarshalStrict(made, &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(ours, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestALoneEtcdOfIPv6AnswersTheProbesOfKubelet(t *testing.T) {
	out, err := Static(Node{"cp-1", netip.MustParseAddr("fd98::11")}, "an-image", 0)
	if err != nil || !strings.Contains(string(out), "--listen-metrics-urls=http://") || !strings.Contains(string(out), "http://127.0.0.1:2381") || !strings.Contains(string(out), "https://[fd98::11]:2380") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := Static(Node{Name: "cp-1"}, "an-image", 0); err == nil {
		t.Error("a pod without an address")
	}
}

// TestAMemberOfSeveralIsToldOfAllAndOnlyOneThatJoinsMayStartWithoutData: docs/adr/0097.
func TestAMemberOfSeveralIsToldOfAllAndOnlyOneThatJoinsMayStartWithoutData(t *testing.T) {
	var members []Node
	for i, name := range []string{"cp-3", "cp-1", "cp-2"} {
		members = append(members, Node{name, netip.MustParseAddr([]string{"10.98.0.13", "10.98.0.11", "10.98.0.12"}[i])})
	}
	const all = "--initial-cluster=cp-1=https://10.98.0.11:2380,cp-2=https://10.98.0.12:2380,cp-3=https://10.98.0.13:2380\n"
	for _, joins := range []bool{true, false} {
		out, err := StaticOf("cp-2", members, "etcd:1", joins, 0)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(out); !strings.Contains(text, all) || strings.Contains(text, "--initial-cluster-state=existing") != joins || !strings.Contains(text, "--name=cp-2\n") || !strings.Contains(text, "--listen-peer-urls=https://10.98.0.12:2380\n") {
			t.Errorf("joins %t:\n%s", joins, text)
		}
	}
	for name, list := range map[string][]Node{"not among them": members[:2], "no address": append(members[:2:2], Node{Name: "cp-2"})} {
		if _, err := StaticOf("cp-2", list, "etcd:1", false, 0); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
