package parts_test

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// TestKubeadmsConfigurationGetsTheVersionsOfAReleaseAndNothingElse, there and back.
func TestKubeadmsConfigurationGetsTheVersionsOfAReleaseAndNothingElse(t *testing.T) {
	const old = "apiServer:\n  certSANs:\n  - api.example\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.14-0\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n"
	was, next := parts.Versions{Kubernetes: "v1.36.3", EtcdTag: "3.6.14-0"}, parts.Versions{Kubernetes: "v1.36.4", EtcdTag: "3.6.15-0"}
	want := strings.NewReplacer("3.6.14-0", "3.6.15-0", "v1.36.3", "v1.36.4").Replace(old)
	got, err := parts.Kubeadm(old, next)
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := parts.Kubeadm(got, was); err != nil || got != old {
		t.Errorf("back: %v\n%s", err, got)
	}
	for _, text := range []string{
		"{kubernetesVersion: v1.36.3, etcd: {local: {imageTag: 3.6.14-0}}} # as a person wrote it\n",
		"{kubernetesVersion: v1.36.3, etcd: {local: {imageTag: 3.6.14-0}}, of: {a: [later, kubeadm]}}",
	} {
		if got, err := parts.Kubeadm(text, was); err != nil || got != text {
			t.Errorf("%v, %q becomes %q", err, text, got)
		}
	}
	// Each of both is a reason.
	for _, v := range []parts.Versions{{Kubernetes: next.Kubernetes, EtcdTag: was.EtcdTag}, {Kubernetes: was.Kubernetes, EtcdTag: next.EtcdTag}} {
		if got, err := parts.Kubeadm(old, v); err != nil || !strings.Contains(got, "imageTag: "+v.EtcdTag+"\n") || !strings.Contains(got, "kubernetesVersion: "+v.Kubernetes+"\n") {
			t.Errorf("%+v: %v\n%s", v, err, got)
		}
	}
}

func TestWhatIsNoConfigurationOfKubeadmIsLeftAlone(t *testing.T) {
	for text, want := range map[string]string{
		"": "kubernetesVersion", "[": "yaml", "etcd: {local: {imageTag: x}}": "kubernetesVersion", "kubernetesVersion: v1.36.3\netcd: {external: {}}": "etcd.local",
	} {
		if got, err := parts.Kubeadm(text, parts.Versions{Kubernetes: "v1.36.4", EtcdTag: "x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
}
