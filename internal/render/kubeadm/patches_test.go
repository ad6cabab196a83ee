package kubeadm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// pods are those of a control plane that kubeadm makes.
var pods = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// patches returns kubeadm's patches by the pods that they are for.
func patches(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, f := range kubeadm.Patches() {
		name, is := strings.CutSuffix(filepath.Base(f.Path), "0+strategic.yaml")
		if !is || filepath.Dir(f.Path) != kubeadm.PatchesDir {
			t.Errorf("kubeadm finds no patch in %s", f.Path)
		}
		out[name] = f.Data
	}
	if got := slices.Sorted(maps.Keys(out)); !slices.Equal(got, pods) {
		t.Fatalf("there are patches for %q", got)
	}
	return out
}

// A site may have been installed with another release, or be on its way to one: the versions in
// the cluster are not those of the images on the disk of a host that joins.
func TestAControlPlaneThatJoinsHasTheImagesOfItsOwnRelease(t *testing.T) {
	for role, want := range map[state.Role]bool{state.RoleMaster: true, state.RoleWorker: false, state.RoleBootstrap: true} {
		join, err := kubeadm.Join(sitetest.New(t, sitetest.TwoDual), role, facts(false, "10.98.0.12", "fd98::12"), kubeadm.Progress{})
		if is := strings.Contains(string(join), "\npatches:\n  directory: "+kubeadm.PatchesDir+"\n"); err != nil || is != want {
			t.Errorf("%s: %v, it names the patches: %t\n%s", role, err, is, join)
		}
	}
	for name, patch := range patches(t) {
		made, err := os.ReadFile(filepath.Join("testdata/made", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var want, got corev1.Pod
		if err := yaml.Unmarshal(made, &want); err != nil {
			t.Fatal(err)
		}
		other := strings.ReplaceAll(string(made), payload.Image(name), payload.Registry+"/"+name+":other")
		if other == string(made) {
			t.Fatalf("%s has another image", name)
		}
		if err := yaml.Unmarshal(patched(t, []byte(other), patch), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// patched applies a patch as kubeadm does.
func patched(t *testing.T, pod, patch []byte) []byte {
	t.Helper()
	var texts [2][]byte
	for i, text := range [][]byte{pod, patch} {
		var err error
		if texts[i], err = yaml.YAMLToJSON(text); err != nil {
			t.Fatal(err)
		}
	}
	out, err := strategicpatch.StrategicMergePatch(texts[0], texts[1], corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The same by the release's kubeadm.
func TestKubeadmTakesTheImagesOfPatches(t *testing.T) {
	program := builttest.Program(t, "kubeadm")
	conf, err := kubeadm.Init(sitetest.New(t, sitetest.TwoDual), facts(false, "10.98.0.11", "fd98::11"), false)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, folder := filepath.Join(dir, "kubeadm.yaml"), filepath.Join(dir, "patches")
	installed := strings.NewReplacer(
		"kind: InitConfiguration\n", "kind: InitConfiguration\npatches: {directory: "+folder+"}\n",
		"imageTag: "+payload.ImageTag("etcd"), "imageTag: elsewhere", "imageRepository: "+payload.Registry, "imageRepository: elsewhere.example",
	).Replace(string(conf))
	files := map[string][]byte{path: []byte(installed)}
	for name, patch := range patches(t) {
		files[filepath.Join(folder, name+"0+strategic.yaml")] = patch
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, phase := range [][]string{{"control-plane", "all"}, {"etcd", "local"}} {
		_, err := host.Run(t.Context(), host.Cmd{
			Name: program, Args: append([]string{"init", "phase"}, append(phase, "--dry-run", "--config", path)...),
			Env: []string{"KUBEADM_INIT_DRYRUN_DIR=" + dir, "HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range pods {
		data, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(data); !strings.Contains(text, "image: "+payload.Image(name)+"\n") || strings.Contains(text, "elsewhere") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
