package machineconfig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// mirror returns what is wrong with a file about the mirrors of a registry.
func mirror(t testing.TB, path, mode, contents string) string {
	t.Helper()
	_, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{
		made(t, "50-mirror", withFiles(fmt.Sprintf(`{path: "%s", %s contents: {source: "%s"}}`, path, mode, ignition.DataURL([]byte(contents))))),
	})
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[machineconfig.Mistakes](err); !ok {
		t.Fatal(err)
	}
	return err.Error() + "\n"
}

const (
	registry = "/etc/containerd/certs.d/registry.example:5000/hosts.toml"
	secret   = "mode: 384,"
)

func TestMirrorsThatContainerdReadsAreAccepted(t *testing.T) {
	for _, text := range []string{
		"", "server = ''\n", "server = 'registry.example:5000'\n", "# nothing\ncapabilities = ['PULL']\n",
		"server = 'https://registry.example'\n[host.'https://mirror.example/v2/a']\ncapabilities = ['pull', 'resolve']\noverride_path = true\ndial_timeout = '2s'\n",
		"[host.'http://[fd00::1]:5000']\nskip_verify = true\nca = 'a.crt'\nclient = [['a.cert', 'a.key'], ['b.cert', 'b.key']]\n[host.mirror]\nca = ['a', '/b']\nclient = ['c.pem']\n",
		"[host.'https://m.example']\n[host.'https://m.example'.header]\nauthorization = 'Basic c2VjcmV0'\nx-a = ['1', '2']\n",
		"[header]\nAuthorization = 'Bearer secret'\n",
	} {
		if got := mirror(t, registry, secret, text); got != "" {
			t.Errorf("%q: %s", text, got)
		}
	}
	for _, path := range []string{"_default/hosts.toml", "registry.example_5000_/hosts.toml", "[fd00::1]:5000/hosts.toml", "localhost/ca.crt", "a.example/mirrors/ca.pem"} {
		if got := mirror(t, "/etc/containerd/certs.d/"+path, "", ""); got != "" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestMirrorsThatContainerdWouldIgnoreAreRefused: each with its key, and without what may
// be a secret.
func TestMirrorsThatContainerdWouldIgnoreAreRefused(t *testing.T) {
	list, err := filepath.Glob("testdata/mirrors/*.toml")
	if err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := mirror(t, registry, secret, string(text))
		if got == "" {
			t.Errorf("%s is accepted", file)
		}
		fmt.Fprintf(&out, "=== %s\n%s", filepath.Base(file), strings.ReplaceAll(got, "MachineConfig 50-mirror: spec.config.storage.files.0.contents: ", ""))
	}
	for _, path := range []string{"hosts.toml", "a.example/host.toml", "a.example/v2/hosts.toml", "https:__a/hosts.toml", "a b/hosts.toml"} {
		fmt.Fprintf(&out, "=== %s\n%s", path, mirror(t, "/etc/containerd/certs.d/"+path, "", ""))
	}
	golden.Check(t, "mirrors.txt", []byte(out.String()))
	if strings.Contains(out.String(), "hunter2") {
		t.Error("a secret is told")
	}
}

func TestCredentialsOfAMirrorAreForRootAlone(t *testing.T) {
	for _, text := range []string{"[header]\na = 'b'\n", "[host.'https://m.example'.header]\na = 'b'\n"} {
		for mode, refused := range map[string]bool{"": true, "mode: 416,": true, "mode: 384,": false, "mode: 256,": false} {
			if got := mirror(t, registry, mode, text); refused != strings.Contains(got, "storage.files.mode") {
				t.Errorf("%q with %q: %s", text, mode, got)
			}
		}
	}
	if got := mirror(t, "/opt/hosts.toml", "", "[header]\na = 'b'\n"); got != "" {
		t.Errorf("a file that containerd does not read: %s", got)
	}
}

// TestASecretInAFileWithMirrorsIsNotTold: in each place where people write one.
func TestASecretInAFileWithMirrorsIsNotTold(t *testing.T) {
	for _, text := range []string{
		"[header]\nauthorization = hunter2\n", "[host.'https://a:hunter2@m.example']\n", "server = 'https://a:hunter2@m.example'\n",
		"[header]\nauthorization = ['hunter2', 1]\n", "header = 'hunter2'\n", "[host.'https://m/?hunter2']\nx = 1\n", "[host.'m#hunter2']\nheader = 1\n",
		"[header]\n'hunter2 a' = 'b'\n", "ca = {hunter2 = 1}\n", "authorization = 'Bearer hunter2\n", "[header]\na = 'hunter2'\na = 'hunter2'\n",
	} {
		if got := mirror(t, registry, secret, text); got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("%q: %q", text, got)
		}
	}
}
