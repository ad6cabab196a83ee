package etcdmanifest

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// The file in testdata is what the kubeadm of this release has made.
func TestKubeletGetsTheVeryPodThatKubeadmMakes(t *testing.T) {
	made, err := os.ReadFile("../kubeadm/testdata/made/etcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Static(Node{"cp-1", netip.MustParseAddr("10.98.0.11")}, payload.Image("etcd"))
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
		t.Error(diff)
	}
}

func TestALoneEtcdOfIPv6AnswersTheProbesOfKubelet(t *testing.T) {
	out, err := Static(Node{"cp-1", netip.MustParseAddr("fd98::11")}, "an-image")
	if err != nil || !strings.Contains(string(out), "--listen-metrics-urls=http://") || !strings.Contains(string(out), "http://127.0.0.1:2381") || !strings.Contains(string(out), "https://[fd98::11]:2380") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := Static(Node{Name: "cp-1"}, "an-image"); err == nil {
		t.Error("a pod without an address")
	}
}
