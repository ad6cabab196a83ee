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
	got, err := parts.Kubeadm(old, next, nil)
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := parts.Kubeadm(got, was, nil); err != nil || got != old {
		t.Errorf("back: %v\n%s", err, got)
	}
	for _, text := range []string{
		"{kubernetesVersion: v1.36.3, etcd: {local: {imageTag: 3.6.14-0}}} # as a person wrote it\n",
		"{kubernetesVersion: v1.36.3, etcd: {local: {imageTag: 3.6.14-0}}, of: {a: [later, kubeadm]}}",
	} {
		if got, err := parts.Kubeadm(text, was, nil); err != nil || got != text {
			t.Errorf("%v, %q becomes %q", err, text, got)
		}
	}
	// Each of both is a reason.
	for _, v := range []parts.Versions{{Kubernetes: next.Kubernetes, EtcdTag: was.EtcdTag}, {Kubernetes: was.Kubernetes, EtcdTag: next.EtcdTag}} {
		if got, err := parts.Kubeadm(old, v, nil); err != nil || !strings.Contains(got, "imageTag: "+v.EtcdTag+"\n") || !strings.Contains(got, "kubernetesVersion: "+v.Kubernetes+"\n") {
			t.Errorf("%+v: %v\n%s", v, err, got)
		}
	}
}

// TestKubeadmsConfigurationGetsTheArgumentsOfARelease: those of the site stay.
func TestKubeadmsConfigurationGetsTheArgumentsOfARelease(t *testing.T) {
	const (
		head = "apiServer:\n  certSANs:\n  - api.example\n  extraArgs:\n  - name: of-the-site\n    value: \"1\"\n  - name: delay\n    value: "
		tail = "etcd:\n  local:\n    imageTag: 3.6.14-0\nkubernetesVersion: v1.36.3\n"
		more = "scheduler:\n  extraArgs:\n  - name: profiling\n    value: \"false\"\n"
	)
	v := parts.Versions{Kubernetes: "v1.36.3", EtcdTag: "3.6.14-0", Arguments: map[string]map[string]string{
		"kube-apiserver": {"delay": "2s", "added": "true"}, "kube-scheduler": {"profiling": "false"},
	}}
	want := head + "2s\n  - name: added\n    value: \"true\"\n" + tail + more
	for _, text := range []string{head + "1s\n" + tail, want} {
		if got, err := parts.Kubeadm(text, v, nil); err != nil || got != want {
			t.Errorf("%v\n%s", err, got)
		}
	}
	next := v
	next.Arguments = map[string]map[string]string{"kube-apiserver": {"delay": "3s"}, "kube-scheduler": {}}
	got, err := parts.Kubeadm(strings.Replace(want, "value: 2s", "value: 9s", 1), next, v.Arguments)
	if left := head + "9s\n" + tail + "scheduler:\n  extraArgs: []\n"; err != nil || got != left {
		t.Errorf("the next release: %v\n%s", err, got)
	}
	if _, err := parts.Kubeadm(want, parts.Versions{Arguments: map[string]map[string]string{"kubelet": nil}}, nil); err == nil || !strings.Contains(err.Error(), "kubelet") {
		t.Error(err)
	}
	older := "apiServer: {extraArgs: {delay: 1s}}\n" + tail // of kubeadm's v1beta3
	if got, err := parts.Kubeadm(older, v, nil); err == nil || !strings.Contains(err.Error(), "apiServer.extraArgs") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWhatIsNoConfigurationOfKubeadmIsLeftAlone(t *testing.T) {
	for text, want := range map[string]string{
		"": "kubernetesVersion", "[": "yaml", "etcd: {local: {imageTag: x}}": "kubernetesVersion", "kubernetesVersion: v1.36.3\netcd: {external: {}}": "etcd.local",
	} {
		if got, err := parts.Kubeadm(text, parts.Versions{Kubernetes: "v1.36.4", EtcdTag: "x"}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
}
