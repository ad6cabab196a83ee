package controlplane

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// mapStore is an API with ConfigMaps.
type mapStore map[string]map[string]string

func (s mapStore) ConfigMap(_ context.Context, namespace, name string) (map[string]string, error) {
	return s[namespace+"/"+name], nil
}

func (s mapStore) PutConfigMap(_ context.Context, namespace, name string, _, data map[string]string) error {
	s[namespace+"/"+name] = data
	return nil
}

func TestConfigMapsThatJoinsAndUpgradesNeedAreMadeAgainAsTheyWereLast(t *testing.T) {
	api := mapStore{}
	for _, name := range []string{"kube-system/kubeadm-config", "kube-system/kubelet-config", "kube-system/kube-proxy"} {
		api[name] = map[string]string{"of": name}
	}
	api["kube-public/cluster-info"] = map[string]string{"kubeconfig": "k", "jws-kubeconfig-abcdef": "signed"}
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	var said []string
	k := &keptMaps{dir: t.TempDir(), now: func() time.Time { return now }, said: func(s string) { said = append(said, s) }}
	step := func(k *keptMaps) {
		t.Helper()
		if err := k.step(t.Context(), api); err != nil {
			t.Fatal(err)
		}
	}
	step(k)
	api["kube-system/kube-proxy"] = map[string]string{"of": "an upgrade"}
	step(k)
	was := maps.Clone(api)
	clear(api)
	step(k)
	if len(said) != 4 || api["kube-system/kube-proxy"]["of"] != "an upgrade" || api["kube-system/kubeadm-config"]["of"] != "kube-system/kubeadm-config" {
		t.Errorf("said %q, have %v", said, api)
	}
	if !maps.Equal(api["kube-public/cluster-info"], map[string]string{"kubeconfig": "k"}) {
		t.Errorf("a signature of before is made again: %v", api["kube-public/cluster-info"])
	}
	for range 9 {
		clear(api)
		step(k)
	}
	if n := len(said); n != 12 {
		t.Errorf("made %d times in all within ten minutes", n)
	}
	later := &keptMaps{dir: k.dir, now: k.now, said: k.said} // the agent was started anew
	clear(api)
	said = nil
	if step(later); len(said) > 0 {
		t.Error("a copy that may be old goes before that of another control plane")
	}
	now = now.Add(5 * time.Minute)
	if step(later); len(said) != 4 || !slices.Contains(slices.Collect(maps.Keys(was)), "kube-system/kubelet-config") {
		t.Errorf("nobody made them: %q", said)
	}
}

func TestAConfigMapThatSomebodyChangedStaysAsItIs(t *testing.T) {
	api := mapStore{"kube-system/kube-proxy": {"mode": "ours"}}
	k := &keptMaps{dir: t.TempDir(), now: time.Now, said: func(string) {}}
	for _, mode := range []string{"ours", "theirs"} {
		api["kube-system/kube-proxy"] = map[string]string{"mode": mode}
		if err := k.step(t.Context(), api); err != nil || api["kube-system/kube-proxy"]["mode"] != mode {
			t.Errorf("%v %v", err, api)
		}
	}
}

// TestTheRunbookTakesKubeadmsConfigurationOutOfItsCopy runs the command of the page, also on a copy from
// a site that was upgraded: then the arguments of the release are beside the configuration.
func TestTheRunbookTakesKubeadmsConfigurationOutOfItsCopy(t *testing.T) {
	page, err := os.ReadFile("../../../docs/runbook/leaf-certificates.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^sudo (sed '.*') (/var/lib/holdfast/objects/\S+) \|`).FindStringSubmatch(string(page))
	if command == nil {
		t.Fatal("the page has no such command")
	}
	const conf = "apiServer:\n  extraArgs:\n  - name: a\n    value: \"1\"\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n"
	for what, data := range map[string]map[string]string{
		"of an installation": {parts.KubeadmKey: conf},
		"after an upgrade":   {parts.KubeadmKey: conf, parts.ArgumentsKey: `{"kube-apiserver":{"a":"1"}}`},
	} {
		k := &keptMaps{dir: t.TempDir()}
		if err := k.keep("kube-system.kubeadm-config", &keptMap{}, data); err != nil {
			t.Fatal(err)
		}
		file := k.path("kube-system.kubeadm-config")
		if filepath.Base(file) != filepath.Base(command[2]) {
			t.Fatalf("the page reads %s, and the copy is %s", command[2], file)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command[1]+" "+file).Output()
		if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(conf) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}
