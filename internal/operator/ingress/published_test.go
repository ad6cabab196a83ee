package ingress

import (
	"crypto/tls"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// publishedDomains returns the domains whose certificate and key are published.
func (c *cluster) publishedDomains() []string {
	c.t.Helper()
	s := &corev1.Secret{}
	c.get(NamespaceManaged, PublishedCertificates, s)
	var out []string
	for domain, pair := range s.Data {
		if _, err := tls.X509KeyPair(pair, pair); err != nil {
			c.t.Errorf("%s is no pair: %v", domain, err)
		}
		out = append(out, domain)
	}
	slices.Sort(out)
	return out
}

func TestWhatRoutersServeIsPublishedByDomain(t *testing.T) {
	c := newCluster(t)
	c.settle()
	main := c.controller(decide.DefaultName).Status.Domain
	c.make("x", `{"domain":"x.example.test","endpointPublishingStrategy":{"type":"Private"}}`)
	c.make("twin", `{"domain":"x.example.test","endpointPublishingStrategy":{"type":"Private"}}`)
	c.settle()
	want := []string{main, "x.example.test"}
	slices.Sort(want)
	if got := c.publishedDomains(); !slices.Equal(got, want) {
		t.Fatalf("published are %q, want %q", got, want)
	}

	admitted := "x"
	if condition(c.controller("x").Status.Conditions, decide.Admitted).Status != "True" {
		admitted = "twin"
	}

	t.Log("somebody's change is taken back, another certificate followed")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: NamespaceManaged, Name: PublishedCertificates}}
	c.must(c.admin.Delete(t.Context(), s))
	c.settle()
	served := &corev1.Secret{}
	c.get(decide.OperandNamespace, decide.CertificateName(admitted), served)
	c.get(NamespaceManaged, PublishedCertificates, s)
	if string(s.Data["x.example.test"]) != string(served.Data[corev1.TLSCertKey])+string(served.Data[corev1.TLSPrivateKeyKey]) {
		t.Error("what is published is not what is served")
	}
	if wrote := c.settle(); len(wrote) > 0 {
		t.Errorf("written again: %q", wrote)
	}

	t.Log("a domain that no IngressController has any more is taken back")
	c.must(c.admin.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"data":{"gone.example.test":"eA=="}}`))))
	c.settle()
	if got := c.publishedDomains(); !slices.Equal(got, want) {
		t.Errorf("published are %q, want %q", got, want)
	}

	t.Log("the other one of the domain waits for it, and takes its place")
	c.must(c.admin.Delete(t.Context(), c.controller(admitted)))
	c.settle()
	c.now = c.now.Add(5 * time.Minute)
	c.settle()
	if got := c.publishedDomains(); !slices.Equal(got, want) {
		t.Errorf("published are %q, want %q", got, want)
	}
	for _, name := range []string{"x", "twin"} {
		if name != admitted {
			c.must(c.admin.Delete(t.Context(), c.controller(name)))
		}
	}
	c.settle()
	c.now = c.now.Add(5 * time.Minute)
	c.settle()
	if got := c.publishedDomains(); !slices.Equal(got, []string{main}) {
		t.Errorf("published are %q after the last one is gone", got)
	}
}

// monitor reads a ServiceMonitor; it returns nil if there is none.
func (c *cluster) monitor(name string) *unstructured.Unstructured {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(render.ServiceMonitorKind)
	if !c.there(decide.OperandNamespace, decide.RouterName(name), o) {
		return nil
	}
	return o
}

func TestPrometheusIsToldOfRoutersWhereItsOperatorIs(t *testing.T) {
	c := newCluster(t)
	c.settle()
	if wrote := strings.Join(c.settle(), " "); strings.Contains(wrote, "servicemonitors") {
		t.Errorf("there is no such kind: %s", wrote)
	}
	file := filepath.Join("testdata", "servicemonitors.yaml")
	c.api.Kubectl(t, "apply", "--server-side", "--filename", file)
	c.api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", file)

	t.Log("the kind is noticed without a restart")
	c.now = c.now.Add(askAgain)
	c.make("x", `{"domain":"x.example.test","endpointPublishingStrategy":{"type":"NodePortService"}}`)
	c.settle()
	for _, name := range []string{decide.DefaultName, "x"} {
		o := c.monitor(name)
		if o == nil {
			t.Fatalf("%s has no ServiceMonitor", name)
		}
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if len(list) != 1 || list[0].(map[string]any)["port"] != decide.MetricsPort {
			t.Errorf("%s: %v", name, list)
		}
	}

	t.Log("what somebody changes or deletes comes back, what is somebody's stays")
	o := c.monitor("x")
	c.must(unstructured.SetNestedField(o.Object, map[string]any{"matchLabels": map[string]any{"a": "b"}}, "spec", "selector"))
	c.must(c.admin.Update(t.Context(), o))
	c.settle()
	if got, _, _ := unstructured.NestedString(c.monitor("x").Object, "spec", "selector", "matchLabels", decide.LabelOwner); got != "x" {
		t.Errorf("it selects %q", got)
	}
	if again, err := c.r.reconcile(t.Context(), "x"); err != nil || again <= 0 || again > monitorLook {
		t.Errorf("it is looked at again after %s: %v", again, err)
	}
	c.must(c.admin.Delete(t.Context(), c.monitor("x")))
	c.settle()
	o = c.monitor("x")
	o.SetLabels(nil)
	c.must(c.admin.Update(t.Context(), o))
	c.settle()
	c.says("x", "ObjectsOwned=False")
	c.must(c.admin.Delete(t.Context(), o))
	c.settle()
	c.says("x", "ObjectsOwned=True")

	c.must(c.admin.Delete(t.Context(), c.controller("x")))
	c.settle()
	c.now = c.now.Add(5 * time.Minute)
	c.settle()
	if c.monitor("x") != nil {
		t.Error("it is left")
	}

	t.Log("the kind goes: routers are kept as before")
	c.api.Kubectl(t, "delete", "--wait=true", "--filename", file)
	c.must(client.IgnoreNotFound(c.pass()))
	c.settle()
}
