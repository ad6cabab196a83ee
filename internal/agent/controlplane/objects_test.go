package controlplane

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// storeAPI plays an API with objects by their paths, and records which are made.
func storeAPI(t *testing.T, have map[string]bool) (client *kube.Client, made *[]string) {
	t.Helper()
	made = new([]string)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			*made = append(*made, r.URL.Path+" "+string(body))
			_, _ = w.Write(body)
			return
		}
		var items []string
		for p := range have {
			if path.Dir(p) == r.URL.Path {
				items = append(items, fmt.Sprintf(`{"metadata":{"name":%q}}`, path.Base(p)))
			}
		}
		_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(api.Close)
	conf := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"` + api.URL + `"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Open(conf)
	if err != nil {
		t.Fatal(err)
	}
	return client, made
}

func TestObjectsOfTheClustersOwnThatSomebodyDeletedAreMadeAgain(t *testing.T) {
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: quietLog})
	own, err := ownObjects(a.Site)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, o := range own {
		have[o.collection+"/"+o.name] = true
	}
	client, made := storeAPI(t, have)
	a.admin = func() (*kube.Client, error) { return client, nil }
	if err := a.remake(t.Context(), client, own); err != nil || len(*made) > 0 {
		t.Fatalf("nothing is missing: %v %q", err, *made)
	}
	for _, p := range []string{
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/holdfast-hosts", "/api/v1/namespaces/openshift-etcd",
		"/apis/apps/v1/namespaces/openshift-etcd/deployments/holdfast-operator", "/api/v1/namespaces/kube-system/configmaps/cluster-config-v1",
	} {
		if !have[p] {
			t.Fatalf("%s is none of the cluster's own", p)
		}
		delete(have, p)
		*made = nil
		if err := a.remake(t.Context(), client, own); err != nil || len(*made) != 1 || !strings.HasPrefix((*made)[0], path.Dir(p)+" ") || !strings.Contains((*made)[0], `"name":"`+path.Base(p)+`"`) {
			t.Errorf("%s: %v %q", p, err, *made)
		}
		have[p] = true
	}
}

func TestWhatPeopleChangeIsNeverMadeFromTheInstallConfiguration(t *testing.T) {
	own, err := ownObjects(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if o.name == manifests.Administrators {
			t.Error("who was an administrator is one again")
		}
		kind, _, _ := strings.Cut(o.what, " ")
		if slices.Contains([]string{"Secret", "Infrastructure", "Etcd", "IngressController", "CustomResourceDefinition", "ValidatingAdmissionPolicy"}, kind) ||
			strings.Contains(string(o.data), "hush-") {
			t.Errorf("%s is made again", o.what)
		}
	}
}
