package manifests

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
)

var update = flag.Bool("update", false, "rewrite golden files")

const secretMarker = "S3cr3t"

// sites returns the configurations of package config's corpus by name.
func sites(t testing.TB) map[string]*config.InstallConfig {
	t.Helper()
	paths, err := filepath.Glob("../../model/config/testdata/valid/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	out := map[string]*config.InstallConfig{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".yaml")] = c
	}
	return out
}

func render(t testing.TB, c *config.InstallConfig) []state.File {
	t.Helper()
	files, err := Render(c, topology.Of(c))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// objectFiles returns the rendered files without the kinds.
func objectFiles(t testing.TB, c *config.InstallConfig) []state.File {
	t.Helper()
	var out []state.File
	for _, f := range render(t, c) {
		if filepath.Dir(f.Path) != Kinds {
			out = append(out, f)
		}
	}
	return out
}

func parseYAML(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEachSiteHasItsGolden(t *testing.T) {
	for name, c := range sites(t) {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, f := range objectFiles(t, c) {
				fmt.Fprintf(&b, "# %s %04o\n---\n%s", f.Path, f.Perm(), f.Data)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSameSiteGivesTheSameBytes(t *testing.T) {
	for name, c := range sites(t) {
		if diff := cmp.Diff(render(t, c), render(t, c)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// matrix returns the corpus, and all combinations of 1..5 control planes, 0..3
// workers and each platform. That is more than config allows, because a schema
// must hold for all of it.
func matrix(t testing.TB) map[string]*config.InstallConfig {
	t.Helper()
	out := sites(t)
	for cp := 1; cp <= 5; cp++ {
		for workers := range 4 {
			for _, base := range []string{"two-none", "two-baremetal", "dual"} {
				c := *sites(t)[base]
				c.ControlPlane.Replicas = new(int64(cp))
				c.Compute = []config.MachinePool{{Name: "worker", Replicas: new(int64(workers))}}
				if cp != 2 {
					c.ControlPlane.Fencing = nil
				}
				out[fmt.Sprintf("%s %d+%d", base, cp, workers)] = &c
			}
		}
	}
	return out
}

func TestTheAPIAcceptsEveryObjectOfTheWholeMatrix(t *testing.T) {
	schemas := kindSchemas(t)
	checked := 0
	for name, c := range matrix(t) {
		created := map[string]map[string]any{}
		for _, f := range objectFiles(t, c) {
			object := parseYAML(t, f.Data)
			schema := schemas[fmt.Sprint(object["apiVersion"], "/", object["kind"])]
			if schema == nil {
				continue
			}
			checked++
			_, hasStatus := object["status"]
			switch dir := filepath.Dir(f.Path); {
			case dir == Objects && hasStatus && schema.hasStatus:
				t.Errorf("%s: %s: the API would drop its status", name, f.Path)
			case dir == Objects:
				created[schema.name] = object
			case !schema.hasStatus:
				t.Errorf("%s: %s: the kind has no status of its own", name, f.Path)
			default:
				object = withStatus(created[schema.name], object["status"])
			}
			for _, err := range schema.check(t, object, created[schema.name]) {
				t.Errorf("%s: %s: %v", name, f.Path, err)
			}
			for _, err := range schema.check(t, object, nil) {
				t.Errorf("%s: %s: on creation: %v", name, f.Path, err)
			}
		}
	}
	if checked < 60*10 {
		t.Errorf("only %d objects were checked", checked)
	}
}

// withStatus returns the object with a status applied to the subresource.
func withStatus(object map[string]any, status any) map[string]any {
	out := runtime.DeepCopyJSON(object)
	out["status"] = status
	return out
}

func TestEveryStatusBelongsToAnObject(t *testing.T) {
	for name, c := range sites(t) {
		objects := map[string]map[string]any{}
		for _, f := range objectFiles(t, c) {
			object := parseYAML(t, f.Data)
			if filepath.Dir(f.Path) == Objects {
				objects[filepath.Base(f.Path)] = object
				continue
			}
			of := objects[filepath.Base(f.Path)]
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				if diff := cmp.Diff(of[key], object[key]); diff != "" {
					t.Errorf("%s: %s: %s differs:\n%s", name, f.Path, key, diff)
				}
			}
			if len(object) != 4 {
				t.Errorf("%s: %s: more than a status: %v", name, f.Path, object)
			}
		}
	}
}

func TestSecretsStandOnlyInFilesOfMode0600(t *testing.T) {
	for name, c := range sites(t) {
		for _, f := range render(t, c) {
			holds := holdsSecret(f.Data)
			if holds && f.Perm() != state.SecretFileMode {
				t.Errorf("%s: %s has mode %04o", name, f.Path, f.Perm())
			}
			if !holds && f.Perm() == state.SecretFileMode {
				t.Errorf("%s: %s is closed and holds no secret", name, f.Path)
			}
		}
	}
}

// holdsSecret looks for a password of the corpus, plain or in base64.
func holdsSecret(data []byte) bool {
	if bytes.Contains(data, []byte(secretMarker)) {
		return true
	}
	for word := range bytes.FieldsSeq(data) {
		plain, err := base64.StdEncoding.DecodeString(string(word))
		if err == nil && (bytes.Contains(plain, []byte(secretMarker)) || bytes.Contains(plain, []byte("dXNlcjpTM2NyM3Q"))) {
			return true
		}
	}
	return false
}

func TestEachNodeHasItsFencingSecret(t *testing.T) {
	files := map[string]map[string]any{}
	for _, f := range objectFiles(t, sites(t)["two-baremetal"]) {
		files[f.Path] = parseYAML(t, f.Data)
	}
	got := files["manifests/20-fencing-credentials-control-1.yaml"]
	want := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{"name": "fencing-credentials-control-1", "namespace": "openshift-etcd"},
		"data": map[string]any{
			"address":                 b64("idrac-redfish+https://bmc-1.example.com:8443/redfish/v1/Systems/System.Embedded.1"),
			"username":                b64("admin"),
			"password":                b64("S3cr3t: #one"),
			"certificateVerification": b64("Enabled"),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := sites(t)["two-baremetal"]
	s.ControlPlane.Fencing.Credentials[1].CertificateFingerprint = strings.Repeat("ab", 32)
	for _, f := range objectFiles(t, s) {
		if f.Path == "manifests/20-fencing-credentials-control-1.yaml" && !strings.Contains(string(f.Data), "fingerprint: "+b64(strings.Repeat("ab", 32))) {
			t.Errorf("the certificate that the installation named is not in it:\n%s", f.Data)
		}
	}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestInfrastructureNamesAreShortAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, domain := range []string{
		"shop example.com", "shop example.org", "a-very-long-cluster-name-indeed example.com",
		"a-very-long-cluster-n-ame example.com", "x example.com",
	} {
		name, base, _ := strings.Cut(domain, " ")
		c := &config.InstallConfig{Metadata: config.Metadata{Name: name}, BaseDomain: base}
		got := InfrastructureName(c)
		if len(got) > 27 || strings.Contains(got, "--") || seen[got] != "" || got != InfrastructureName(c) {
			t.Errorf("%s: got %q, as has %q", domain, got, seen[got])
		}
		seen[got] = domain
	}
}

func TestAProxyKeepsTheClusterInside(t *testing.T) {
	c := *sites(t)["full"]
	proxy := *c.Proxy
	c.Proxy = &proxy
	if got := c.NoProxy(); got != "*" {
		t.Errorf("got %s", got)
	}
	proxy.NoProxy = ".example.com, 10.10.0.0/16"
	want := ".apps.all.lab.example.com,.cluster.local,.example.com,.svc,10.10.0.0/16,10.128.0.0/14,127.0.0.1,172.30.0.0/16,::1,api-int.all.lab.example.com,api.all.lab.example.com,localhost"
	if got := c.NoProxy(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryNamespaceOfAnObjectIsMade(t *testing.T) {
	for name, c := range sites(t) {
		made := map[any]bool{"default": true, "kube-node-lease": true, "kube-system": true} // Kubernetes creates these
		for _, f := range objectFiles(t, c) {
			object := parseYAML(t, f.Data)
			metadata, _ := object["metadata"].(map[string]any)
			if object["kind"] == "Namespace" {
				made[metadata["name"]] = true
			}
			if ns := metadata["namespace"]; ns != nil && !made[ns] {
				t.Errorf("%s: %s comes before namespace %s", name, f.Path, ns)
			}
		}
	}
}

// TestTheKindsAreTheModules verifies the result of `go generate`.
func TestTheKindsAreTheModules(t *testing.T) {
	dir := t.TempDir()
	source, gateways := moduleDir(t, ".", "github.com/openshift/api"), moduleDir(t, "../../../payload/traefik", "sigs.k8s.io/gateway-api")
	if out, err := exec.CommandContext(t.Context(), "go", "run", "./gen", source, gateways, dir).CombinedOutput(); err != nil {
		t.Fatalf("gen: %v\n%s", err, out)
	}
	want := readAll(t, os.DirFS(dir))
	embedded, err := fs.Sub(definitions, "crds")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readAll(t, embedded)); diff != "" {
		t.Errorf("run go generate ./internal/render/manifests (-module +embedded):\n%s", diff)
	}
}

// moduleDir returns the folder of a module's files, in the version that a
// folder uses.
func moduleDir(t *testing.T, folder, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module) // also unpacks it, if nobody has built it yet
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod download: %v", err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	return found.Dir
}

func readAll(t *testing.T, dir fs.FS) map[string]string {
	t.Helper()
	entries, err := fs.ReadDir(dir, ".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("nothing to read: %v", err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func BenchmarkRender(b *testing.B) {
	c := sites(b)["dual"]
	t := topology.Of(c)
	for b.Loop() {
		if _, err := Render(c, t); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheDefaultIngressControllerCarriesReplicasAndPlacementExplicitly(t *testing.T) {
	for name, want := range map[string]string{
		"one":             "1 node-role.kubernetes.io/master",
		"one-two-workers": "1 node-role.kubernetes.io/master",
		"two-none":        "2 node-role.kubernetes.io/worker",
		// Two would need two hosts, and control planes accept none (docs/facts/findings.md#lab,
		// K2).
		"three-one": "1 node-role.kubernetes.io/worker",
	} {
		for _, f := range objectFiles(t, sites(t)[name]) {
			if filepath.Base(f.Path) != "50-ingresscontroller-default.yaml" {
				continue
			}
			spec, _ := parseYAML(t, f.Data)["spec"].(map[string]any)
			replicas, role, _ := strings.Cut(want, " ")
			placement := map[string]any{"kubernetes.io/os": "linux", role: ""}
			got, _ := spec["nodePlacement"].(map[string]any)
			selector, _ := got["nodeSelector"].(map[string]any)
			if diff := cmp.Diff(any(placement), selector["matchLabels"]); diff != "" || fmt.Sprint(spec["replicas"]) != replicas {
				t.Errorf("%s: %v replicas, labels:\n%s", name, spec["replicas"], diff)
			}
		}
	}
}
