package controlplane

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secretOfMirror stands for credentials of a mirror in a configuration.
const secretOfMirror = "Basic-hush"

// rendered makes the configuration of a pool as the operator does.
func rendered(t *testing.T, pool, contents string) decide.Rendered {
	t.Helper()
	source := "data:;base64," + base64.StdEncoding.EncodeToString([]byte(contents))
	text := `{"ignition":{"version":"3.5.0"}}`
	if contents != "" {
		text = `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/site.conf","mode":384,"contents":{"source":"` + source + `"}}]}}`
	}
	out, err := decide.Render(pool, []mcfgv1.MachineConfig{{
		ObjectMeta: metav1.ObjectMeta{Name: "50-" + pool}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(text)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reached says in a pool's status that all its hosts have a configuration.
func (c *joiningCluster) reached(pool, config string) {
	c.t.Helper()
	head := `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{"name":"` + pool + `"}`
	c.apply(head + `,"spec":{"nodeSelector":{"matchLabels":{"x":"y"}},"machineConfigSelector":{"matchLabels":{"x":"y"}}}}`)
	c.apply(head+`,"status":{"configuration":{"name":"`+config+`"}}}`, "--subresource=status")
}

// TestAHostIsServedWhatAllHostsOfItsPoolHave: the very bytes of the rendered object, by
// the rights of the agent, and nothing where there is none or the API does not answer.
func TestAHostIsServedWhatAllHostsOfItsPoolHave(t *testing.T) {
	c := newJoiningCluster(t)
	client, err := kube.Open(agentsFile(t, c))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the agent's rights count", func() error { _, err := client.Nodes(t.Context()); return err })
	c.agent.open = func() (*kube.Client, error) { return client, nil }
	c.agent.stands = func() bool { return false }
	if got := c.agent.first(t.Context(), state.RoleWorker).Files; len(got) != 0 || strings.Contains(c.log.String(), "joins without") {
		t.Errorf("without a cluster: %d files, log %s", len(got), c.log.String())
	}
	c.agent.stands = func() bool { return true }
	// A busy machine may take longer than a joining host waits.
	none := func(why, failure string) {
		t.Helper()
		first, err := c.agent.firstOf(t.Context(), "worker")
		got := first.Files
		if len(got) != 0 || (err == nil) != (failure == "") || err != nil && !strings.Contains(err.Error(), failure) {
			t.Errorf("%s: %d files, %v", why, len(got), err)
		}
	}
	none("no such kinds", "")
	c.kinds("machineconfigs", "machineconfigpools")

	empty, own, other := rendered(t, "worker", ""), rendered(t, "worker", "for workers "+secretOfMirror), rendered(t, "master", "for control planes")
	for _, r := range []decide.Rendered{empty, own, other} {
		object, err := json.Marshal(r.Object())
		if err != nil {
			t.Fatal(err)
		}
		c.apply(string(object))
	}
	c.reached("worker", empty.Name)
	none("an empty configuration", "")
	c.reached("worker", own.Name)
	c.reached("master", other.Name)
	for role, want := range map[string]decide.Rendered{"worker": own, "master": other} {
		first, err := c.agent.firstOf(t.Context(), role)
		files := first.Files
		if err != nil || len(files) != 1 || files[0].Mode != state.SecretFileMode {
			t.Fatalf("a %s gets %d files, %v", role, len(files), err)
		}
		root := t.TempDir()
		if _, err := host.WriteFiles(root, files); err != nil {
			t.Fatal(err)
		}
		got, err := hostconfig.First(root)
		if err != nil || got.Name != want.Name {
			t.Fatalf("a %s reads %v, %v", role, got, err)
		}
		// A host renders nothing: what it reads has the hash in its name.
		again, err := decide.Render(strings.Split(got.Name, "-")[1], []mcfgv1.MachineConfig{*got})
		if err != nil || again.Name != want.Name {
			t.Errorf("a %s reads another configuration: %s, %v", role, again.Name, err)
		}
	}

	// The host gets the proxy of today, and not that of the installation of the host that
	// serves it.
	proxy := state.File{Path: state.ProxyPath, Data: []byte("HTTP_PROXY=\"http://clerk:hush@p\"\n"), Mode: state.SecretFileMode}
	out, err := decide.Render("worker", nil, decide.Config{}.Beside([]state.File{proxy}).Ignition.Storage.Files...)
	if err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(out.Object())
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(object))
	c.reached("worker", out.Name)
	if first, err := c.agent.firstOf(t.Context(), "worker"); err != nil || !reflect.DeepEqual(first.Files, []state.File{proxy}) || first.Keys != nil {
		t.Errorf("with a proxy alone: %d files, %v", len(first.Files), err)
	}

	// So does it get the keys of today.
	keys, err := decide.OfKeys([]string{"ssh-ed25519 NEW"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err = decide.Render("worker", keys[1:]); err != nil {
		t.Fatal(err)
	}
	if object, err = json.Marshal(out.Object()); err != nil {
		t.Fatal(err)
	}
	c.apply(string(object))
	c.reached("worker", out.Name)
	if first, err := c.agent.firstOf(t.Context(), "worker"); err != nil || !reflect.DeepEqual(first.Keys, []string{"ssh-ed25519 NEW"}) {
		t.Errorf("with keys: %q, %v", first.Keys, err)
	}

	c.apply(`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"50-bad"},"spec":{"config":{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/passwd","contents":{"source":"data:,` + secretOfMirror + `"}}]}}}}`)
	c.reached("worker", "rendered-worker-gone")
	none("it is gone", "not found")
	c.reached("worker", "50-bad")
	none("no host could have it", "/etc/passwd belongs to the host")
	c.agent.open = func() (*kube.Client, error) { return kube.Open(filepath.Join(t.TempDir(), "none")) }
	got := c.agent.first(t.Context(), state.RoleWorker).Files
	if text := c.log.String(); len(got) != 0 || strings.Count(text, "a host joins without its machine configuration") != 1 || strings.Contains(text, secretOfMirror) {
		t.Errorf("no way to the API: %d files, log %s", len(got), text)
	}
}
