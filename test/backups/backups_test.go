package backups

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

var taken = time.Date(2026, 11, 25, 3, 17, 0, 0, time.UTC)

// build makes the objects of a shop and waits until their controllers have made theirs.
func build(t *testing.T) *apitest.API {
	t.Helper()
	api := apitest.Need(t, server)
	for _, file := range []string{"tills.yaml", "shop.yaml"} {
		if file == "shop.yaml" {
			api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/tills.example.com")
		}
		api.Kubectl(t, "apply", "-f", file)
	}
	until(t, "the job has its pod", func() bool { return importer(t, api) != "" })
	api.Kubectl(t, "patch", importer(t, api), "-n", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)
	api.Kubectl(t, "wait", "--for=condition=Complete", "--timeout=60s", "job/import", "-n", "shop")
	until(t, "the controllers make their objects", func() bool {
		made := strings.Fields(api.Kubectl(t, "get", "pods,endpointslices,serviceaccounts", "-n", "shop", "-o", "name"))
		return len(made) >= 4+2+2
	})
	return api
}

// importer returns the pod of the job, as pod/NAME.
func importer(t *testing.T, api *apitest.API) string {
	t.Helper()
	return strings.TrimSpace(api.Kubectl(t, "get", "pods", "-n", "shop", "-l", "job-name=import", "-o", "name"))
}

// gone deletes the shop and waits until nothing of it is left.
func gone(t *testing.T, api *apitest.API) {
	t.Helper()
	api.Kubectl(t, "delete", "namespace", "shop", "mill", "--ignore-not-found", "--timeout=60s")
}

// objectOf decodes an object that a command printed as JSON.
func objectOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func TestEveryObjectOfABackupIsReadAsItsAPIShowsIt(t *testing.T) {
	api := build(t)
	file := take(t, api, taken, 1)
	var counted struct {
		Objects, Partial, Encrypted int
		Unread                      []any
	}
	if err := json.Unmarshal([]byte(must(t, command.ExitOK, "backup", "inspect", file, "-o", "json")), &counted); err != nil {
		t.Fatal(err)
	}
	if counted.Objects < 100 || counted.Partial > 0 || len(counted.Unread) > 0 || counted.Encrypted < 2 {
		t.Fatalf("counted %+v", counted)
	}
	var resources []string
	for resource := range strings.FieldsSeq(api.Kubectl(t, "api-resources", "--verbs=list,create", "-o", "name")) {
		if resource != "events.events.k8s.io" && resource != "leases.coordination.k8s.io" { // it has events twice, and leases change at any time
			resources = append(resources, resource)
		}
	}
	living := byPath(t, api.Kubectl(t, "get", strings.Join(resources, ","), "-A", "-o", "json"))
	_, text, _ := run(t, "backup", "inspect", file, strings.Join(resources, ","), "-o", "json", "--show-secrets") // of some there is none
	if diff := cmp.Diff(living, byPath(t, text)); diff != "" {
		t.Errorf("-living +stored:\n%s", diff)
	}
	if len(living) < 100 {
		t.Errorf("only %d objects were compared", len(living))
	}
}

// byPath returns the objects of a list by their kinds and names.
func byPath(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, item := range objectOf(t, text)["items"].([]any) {
		o := item.(map[string]any)
		meta := o["metadata"].(map[string]any)
		if o["kind"] == "PersistentVolumeClaim" {
			delete(o, "status") // its phase is not stored, and the API fills it in
		}
		out[fmt.Sprint(o["apiVersion"], " ", o["kind"], " ", meta["namespace"], "/", meta["name"])] = o
	}
	return out
}

func TestSecretsAreShownOnRequestAlone(t *testing.T) {
	api := build(t)
	for name, file := range map[string]string{"the key's file": take(t, api, taken, 1), "the root alone": take(t, api, taken)} {
		if text := must(t, command.ExitOK, "backup", "inspect", file, "secret/tls", "-n", "shop", "-o", "yaml"); strings.Contains(text, "UzNjcjN0LXg=") || strings.Contains(text, "S3cr3t-x") || !strings.Contains(text, "hidden") {
			t.Errorf("%s: %s", name, text)
		}
		if text := must(t, command.ExitOK, "backup", "inspect", file, "secret/tls", "-n", "shop", "-o", "yaml", "--show-secrets"); !strings.Contains(text, "password: UzNjcjN0LXg=") {
			t.Errorf("%s: %s", name, text)
		}
		if text := must(t, command.ExitAttention, "backup", "extract", file, "secrets,configmaps", "-n", "shop", "-o", "-"); strings.Contains(text, "UzNjcjN0LXg=") || !strings.Contains(text, "secrets shop/tls: it holds secrets") || !strings.Contains(text, "name: prices") {
			t.Errorf("%s: %s", name, text)
		}
		if text := must(t, command.ExitOK, "backup", "extract", file, "secret/tls", "-n", "shop", "-o", "-", "--show-secrets"); !strings.Contains(text, "password: UzNjcjN0LXg=") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestANamespaceThatSomebodyDeletedComesBackFromABackup(t *testing.T) {
	api := build(t)
	file := take(t, api, taken, 1)
	before := spec(t, api)
	gone(t, api)
	api.Kubectl(t, "delete", "crd", "tills.example.com")

	dir := filepath.Join(t.TempDir(), "shop-objects")
	t.Log(must(t, command.ExitOK, "backup", "extract", file, "-n", "shop", "--with-crds", "-o", dir))
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	api.Kubectl(t, "create", "-f", filepath.Join(dir, "0002-customresourcedefinitions-tills.example.com.yaml"))
	api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/tills.example.com")
	if err := os.Remove(filepath.Join(dir, "0002-customresourcedefinitions-tills.example.com.yaml")); err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, "create", "-f", dir)
	until(t, "the controllers make their objects", func() bool {
		return len(strings.Fields(api.Kubectl(t, "get", "pods", "-n", "shop", "-o", "name"))) == 3
	})
	if diff := cmp.Diff(before, spec(t, api)); diff != "" {
		t.Errorf("the namespace is not as it was (-before +after):\n%s", diff)
	}

	text := must(t, command.ExitAttention, "backup", "diff", file, "-n", "shop", "--kubeconfig", api.Kubeconfig())
	if !strings.HasSuffix(text, `
namespace shop
  - jobs.batch import
  - secrets till-token
  ~ services outside: deleted and made again, spec.clusterIP, spec.clusterIPs[0]
  ~ services web: deleted and made again, spec.clusterIP, spec.clusterIPs[0], spec.ports[0].nodePort

0 added, 2 removed, 2 changed
`) {
		t.Error(text)
	}
}

func TestWhatDiffersFromABackupIsNamedWithoutSecrets(t *testing.T) {
	api := build(t)
	file := take(t, api, taken, 1)
	if text := must(t, command.ExitOK, "backup", "diff", file, take(t, api, taken.Add(time.Hour), 1)); !strings.Contains(text, "0 added, 0 removed, 0 changed") {
		t.Error(text)
	}
	// The whole living cluster, with what all its controllers do meanwhile.
	if text := must(t, command.ExitOK, "backup", "diff", file, "--kubeconfig", api.Kubeconfig()); !strings.Contains(text, "0 added, 0 removed, 0 changed") {
		t.Error(text)
	}
	apply(t, api, "apply", `{apiVersion: v1, kind: ConfigMap, metadata: {name: prices, namespace: shop}, data: {bread: "4", milk: "2"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: shop}, stringData: {password: An0ther}}
---
{apiVersion: example.com/v1, kind: Till, metadata: {name: first, namespace: shop}, spec: {drawer: 3}}
`)
	api.Kubectl(t, "delete", "rolebinding", "till:reader", "-n", "shop")
	api.Kubectl(t, "scale", "deployment", "web", "-n", "shop", "--replicas=3")
	const want = `
namespace shop
  + configmaps new
  ~ configmaps prices
      data.bread: "3" -> "4"
      data.milk: - -> "2"
  ~ deployments.apps web
      spec.replicas: 2 -> 3
  - rolebindings.rbac.authorization.k8s.io till:reader
  ~ secrets tls
      data.password: (hidden) -> (hidden)
  ~ tills.example.com first
      spec.drawer: 2 -> 3

1 added, 1 removed, 4 changed
`
	for name, line := range map[string][]string{
		"another backup":     {"backup", "diff", file, take(t, api, taken.Add(2*time.Hour), 1), "-o", "wide"},
		"the living cluster": {"backup", "diff", file, "-o", "wide", "--kubeconfig", api.Kubeconfig()},
	} {
		if text := must(t, command.ExitAttention, line...); !strings.HasSuffix(text, want) || strings.Contains(text, "An0ther") {
			t.Errorf("%s: %s", name, text)
		}
	}

	// The runbook replaces changed objects and creates deleted ones.
	dir := t.TempDir()
	changed, deleted := filepath.Join(dir, "changed"), filepath.Join(dir, "deleted")
	must(t, command.ExitOK, "backup", "extract", file, "cm/prices", "secret/tls", "deploy/web", "tl/first", "-n", "shop", "-o", changed)
	must(t, command.ExitOK, "backup", "extract", file, "rolebindings", "-n", "shop", "-o", deleted)
	api.Kubectl(t, "replace", "-f", changed)
	api.Kubectl(t, "diff", "-f", changed) // it fails if something differs
	api.Kubectl(t, "create", "-f", deleted)
	if text := must(t, command.ExitAttention, "backup", "diff", file, "--kubeconfig", api.Kubeconfig()); !strings.HasSuffix(text, "\nnamespace shop\n  + configmaps new\n\n1 added, 0 removed, 0 changed\n") {
		t.Error(text)
	}
	gone(t, api)
}

// spec returns what matters of the shop, without what a new object must have anew.
func spec(t *testing.T, api *apitest.API) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, resource := range []string{
		"configmaps", "secrets", "serviceaccounts", "deployments", "services", "endpoints", "persistentvolumeclaims", "roles", "rolebindings",
		"cronjobs", "horizontalpodautoscalers", "poddisruptionbudgets", "ingresses", "tills",
	} {
		for _, item := range objectOf(t, api.Kubectl(t, "get", resource, "-n", "shop", "-o", "json"))["items"].([]any) {
			o := item.(map[string]any)
			meta := o["metadata"].(map[string]any)
			if resource == "secrets" && o["type"] != "Opaque" || resource == "endpoints" && meta["name"] != "outside" {
				continue
			}
			delete(o, "status")
			if s, ok := o["spec"].(map[string]any); ok && resource == "services" && s["clusterIP"] != "None" {
				delete(s, "clusterIP")
				delete(s, "clusterIPs")
				for _, p := range s["ports"].([]any) {
					delete(p.(map[string]any), "nodePort")
				}
			}
			if a, ok := meta["annotations"].(map[string]any); ok {
				delete(a, "kubectl.kubernetes.io/last-applied-configuration")
				if len(a) == 0 {
					delete(meta, "annotations")
				}
			}
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
				delete(meta, field)
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out[resource+"/"+meta["name"].(string)] = string(text)
		}
	}
	return out
}
