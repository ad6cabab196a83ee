package kubeadm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// The output of the release's kubeadm for the rendered configuration, in its
// own dry run: the pods of a control plane, kubelet's configuration and
// kube-proxy. Other tests read these files: docs/cis.md is about them.
func TestKubeadmMakesWhatIsApproved(t *testing.T) {
	program := builttest.Program(t, "kubeadm")
	conf, err := kubeadm.Init(sitetest.New(t, sitetest.TwoDual), facts(false, "10.98.0.11", "fd98::11"), false)
	if err != nil {
		t.Fatal(err)
	}
	dir, run := phases(t, program, conf)
	run("control-plane", "all", "--dry-run")
	run("etcd", "local", "--dry-run")
	run("kubelet-start", "--dry-run")
	golden.Check(t, "made/kube-proxy.yaml", run("addon", "kube-proxy", "--print-manifest"))
	read := func(name string) []byte {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || name != "config.yaml" && info.Mode().Perm() != 0o600 {
			t.Errorf("kubeadm writes %s for others to read: %v", name, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	golden.Check(t, "made/kubelet.yaml", read("config.yaml"))
	for _, name := range []string{"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml", "etcd.yaml"} {
		golden.Check(t, "made/"+name, withoutAuthorities(t, read(name)))
	}
}

// phases returns a folder, and what runs phases of kubeadm with a configuration. Their dry run writes
// there.
func phases(t *testing.T, program string, conf []byte) (dir string, run func(args ...string) []byte) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, "kubeadm.yaml")
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, func(args ...string) []byte {
		t.Helper()
		out, err := host.Run(t.Context(), host.Cmd{
			Name: program, Args: append([]string{"init", "phase"}, append(args, "--config", path)...),
			Env: []string{"KUBEADM_INIT_DRYRUN_DIR=" + dir, "HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// kubeadm gives etcd the quota that a site chooses.
func TestKubeadmGivesEtcdTheQuotaOfTheSite(t *testing.T) {
	conf, err := kubeadm.Init(sitetest.New(t, sitetest.TwoDual+"etcdQuotaGiB: 4\n"), facts(false, "10.98.0.11", "fd98::11"), false)
	if err != nil {
		t.Fatal(err)
	}
	const want = "    extraArgs:\n    - name: quota-backend-bytes\n      value: \"4294967296\"\n    - name: snapshot-catchup-entries\n      value: \"30000\"\n    imageTag: "
	if !strings.Contains(string(conf), want) {
		t.Errorf("no %q in\n%s", want, conf)
	}
	dir, run := phases(t, builttest.Program(t, "kubeadm"), conf)
	run("etcd", "local", "--dry-run")
	made, err := os.ReadFile(filepath.Join(dir, "etcd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "made/etcd-quota.yaml", withoutAuthorities(t, made))
}

// withoutAuthorities removes from a pod the folders in which this machine's
// distribution keeps authorities: another machine has others.
func withoutAuthorities(t *testing.T, manifest []byte) []byte {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		t.Fatal(err)
	}
	theirs := func(name string) bool { return strings.Contains(name, "ca-cert") || strings.Contains(name, "etc-pki") }
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return theirs(v.Name) })
	mounts := &pod.Spec.Containers[0].VolumeMounts
	*mounts = slices.DeleteFunc(*mounts, func(m corev1.VolumeMount) bool { return theirs(m.Name) })
	out, err := document.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
