package ingress

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// namespaces makes the namespaces of tenants.
func (c *cluster) namespaces(names ...string) {
	c.t.Helper()
	for _, name := range names {
		ns := &corev1.Namespace{}
		ns.Name = name
		if err := c.admin.Create(c.t.Context(), ns); !apierrors.IsAlreadyExists(err) {
			c.must(err)
		}
	}
}

// gatewayRoute returns a route of the Gateway API for hosts, to a Service or, in
// the form KIND.GROUP/NAME, to something else.
func gatewayRoute(kind, namespace, backend, path string, hosts ...any) *unstructured.Unstructured {
	to := map[string]any{"name": backend, "port": int64(80)}
	if k, name, other := strings.Cut(backend, "/"); other {
		k, group, _ := strings.Cut(k, ".")
		to = map[string]any{"name": name, "kind": k, "group": group}
	}
	rule := map[string]any{"backendRefs": []any{to}}
	if path != "" {
		rule["matches"] = []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{map[string]any{"name": "any"}}, "rules": []any{rule},
	}}}
	if len(hosts) > 0 {
		_ = unstructured.SetNestedSlice(o.Object, hosts, "spec", "hostnames")
	}
	o.SetAPIVersion("gateway.networking.k8s.io/v1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName("route")
	return o
}

// try asks the API whether it would accept an object, until the answer is the
// wanted one: no error, or a refusal that contains want.
func (c *cluster) try(what string, want string, do func() error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); _ = host.Sleep(c.t.Context(), 50*time.Millisecond) {
		err = do()
		if want == "" && err == nil || want != "" && apierrors.IsForbidden(err) && strings.Contains(err.Error(), want) {
			return
		}
	}
	c.t.Errorf("%s: %v, want %q", what, err, want)
}

// created returns the creation of an object as a dry run.
func (c *cluster) created(o client.Object) func() error {
	return func() error {
		copied, _ := o.DeepCopyObject().(client.Object)
		return c.admin.Create(c.t.Context(), copied, client.DryRunAll)
	}
}

func annotated(i *networkingv1.Ingress, key, value string) *networkingv1.Ingress {
	i.Annotations = map[string]string{key: value}
	return i
}

func ofClass(i *networkingv1.Ingress, class string) *networkingv1.Ingress {
	i.Spec.IngressClassName = &class
	return i
}

// An Ingress that asks something of the routers themselves is refused, whatever
// is said of hosts (docs/attacks.md, F9).
func TestNobodyReachesIntoTheRouters(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example","routeAdmission":{"namespaceOwnership":"InterNamespaceAllowed"}}`)
	c.settle()
	c.namespaces("bank")
	const prefix = "traefik.ingress.kubernetes.io/"
	plain := func() *networkingv1.Ingress { return rule("bank", "web", "bank.example.com", "/", "api") }
	const reaches = "reaches into the routers"
	for annotation, want := range map[string]string{
		"router.entrypoints": reaches, "router.priority": reaches, "router.middlewares": reaches, "router.tls.options": reaches,
		"router.tls.certresolver": reaches, "router.rulesyntax": reaches, "Router.EntryPoints": reaches, "ROUTER.PRIORITY": reaches,
		"router.tls.domains.0.main": reaches, "router.tomorrow": reaches,
		"router.pathmatcher": "", "router.observability.accesslogs": "", "router.tls": "", "other": "",
	} {
		c.try(annotation, want, c.created(annotated(plain(), prefix+annotation, "metrics")))
		c.try("another class: "+annotation, "", c.created(ofClass(annotated(plain(), prefix+annotation, "metrics"), "somebody-elses")))
	}
	old := annotated(plain(), prefix+"router.priority", "1000000")
	old.Spec.IngressClassName = nil
	old.Annotations[legacyClass] = "openshift-x"
	c.try("a class that is named as in former days", reaches, c.created(old))
	c.try("an administrator's", "", c.created(annotated(rule(decide.OperandNamespace, "web", "bank.example.com", "/", "api"), prefix+"router.priority", "5")))

	for path, want := range map[string]string{
		"/x`)) || (HostRegexp(`.+": "backquote", "/`": "backquote", "/x": "", "/%60": "", `/"`: "",
	} {
		c.try("path "+path, want, c.created(rule("bank", "web", "bank.example.com", path, "api")))
	}
	const toTraefik = "TraefikService"
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute"} {
		c.try(kind, "", c.created(gatewayRoute(kind, "bank", "api", "", "bank.example.com")))
		for _, backend := range []string{"TraefikService.traefik.io/api@internal", "TraefikService.other.io/api@internal"} {
			c.try(kind+" to "+backend, toTraefik, c.created(gatewayRoute(kind, "bank", backend, "", "bank.example.com")))
		}
	}
	mirror := gatewayRoute("HTTPRoute", "bank", "api", "/", "bank.example.com")
	rules, _, _ := unstructured.NestedSlice(mirror.Object, "spec", "rules")
	first, _ := rules[0].(map[string]any)
	first["filters"] = []any{map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{
		"backendRef": map[string]any{"group": "traefik.io", "kind": "TraefikService", "name": "rest@internal"},
	}}}
	c.must(unstructured.SetNestedSlice(mirror.Object, rules, "spec", "rules"))
	c.try("a mirror of requests", toTraefik, c.created(mirror))
}

// TestAHostOfAnotherNamespaceIsRefused tries each kind of object, and an update
// (docs/attacks.md, F9).
func TestAHostOfAnotherNamespaceIsRefused(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example"}`)
	c.make("y", `{"domain":"y.example","endpointPublishingStrategy":{"type":"Private"}}`)
	c.namespaces("bank", "evil")
	c.settle()
	c.create(rule("bank", "web", "bank.example.com", "/", "api"))
	c.settle()

	const taken = "had this host first"
	c.try("the same host", taken, c.created(rule("evil", "web", "bank.example.com", "/", "api")))
	c.try("a longer path", taken, c.created(rule("evil", "web", "bank.example.com", "/login", "api")))
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute"} {
		c.try(kind, taken, c.created(gatewayRoute(kind, "evil", "api", "", "bank.example.com")))
		c.try(kind+" of another host", "", c.created(gatewayRoute(kind, "evil", "api", "", "evil.example.com")))
	}
	c.try("the same namespace", "", c.created(rule("bank", "more", "bank.example.com", "/more", "api")))
	c.try("another host", "", c.created(rule("evil", "web", "evil.example.com", "/", "api")))
	c.try("other routers", "", c.created(ofClass(rule("evil", "web", "bank.example.com", "/", "api"), "openshift-y")))
	c.try("an administrator", "", c.created(rule(decide.OperandNamespace, "web", "bank.example.com", "/", "api")))

	const every, wildcard = "asks for every host", "a wildcard takes"
	c.try("no host", every, c.created(rule("evil", "web", "", "/a/long/path/of/somebody/elses", "api")))
	nobodys := rule("evil", "web", "", "/", "api")
	nobodys.Spec.DefaultBackend, nobodys.Spec.Rules = &nobodys.Spec.Rules[0].HTTP.Paths[0].Backend, nil
	c.try("a default backend", every, c.created(nobodys))
	beside := rule("evil", "web", "evil.example.com", "/", "api")
	beside.Spec.DefaultBackend = nobodys.Spec.DefaultBackend
	c.try("one beside a host, which is never followed", "", c.created(beside))
	c.try("a route without hosts", every, c.created(gatewayRoute("HTTPRoute", "evil", "api", "/")))
	none := gatewayRoute("HTTPRoute", "evil", "api", "/")
	c.must(unstructured.SetNestedSlice(none.Object, []any{}, "spec", "hostnames"))
	c.try("one with none", every, c.created(none))
	mesh := gatewayRoute("HTTPRoute", "evil", "api", "/")
	c.must(unstructured.SetNestedSlice(mesh.Object, []any{map[string]any{"kind": "Service", "group": "", "name": "api"}}, "spec", "parentRefs"))
	c.try("a route of a Service", "", c.created(mesh))
	c.try("a wildcard", wildcard, c.created(rule("evil", "web", "*.example.com", "/", "api")))
	c.try("one of a route", wildcard, c.created(gatewayRoute("HTTPRoute", "evil", "api", "/", "*.example.com")))

	t.Log("an update, and a deletion that waits")
	own := rule("evil", "own", "own.example.com", "/", "api")
	own.Finalizers = []string{"example.com/later"}
	c.create(own)
	t.Cleanup(func() {
		c.must(c.admin.Patch(context.WithoutCancel(t.Context()), rule("evil", "own", "", "", ""),
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
	steal := func() error {
		c.get("evil", "own", own)
		own.Spec.Rules[0].Host = "bank.example.com"
		return c.admin.Update(c.t.Context(), own, client.DryRunAll)
	}
	c.try("an update", taken, steal)
	c.must(c.admin.Delete(t.Context(), own))
	c.try("one of what is being deleted", taken, steal)
	c.try("its label", "", func() error {
		c.get("evil", "own", own)
		own.Labels = map[string]string{"a": "b"}
		return c.admin.Update(c.t.Context(), own)
	})

	t.Log("wildcards, where they are wanted")
	c.change("x", `{"spec":{"routeAdmission":{"wildcardPolicy":"WildcardsAllowed"}}}`)
	c.settle()
	c.try("one above another's host", taken, c.created(rule("evil", "web", "*.example.com", "/", "api")))
	c.try("one above that", taken, c.created(rule("evil", "web", "*.com", "/", "api")))
	c.try("one above nobody's", "", c.created(rule("evil", "web", "*.evil.com", "/", "api")))
	c.create(rule("bank", "wild", "*.bank.com", "/", "api"))
	c.settle()
	c.try("a host below another's", taken, c.created(rule("evil", "web", "www.bank.com", "/", "api")))
	c.try("further below", taken, c.created(gatewayRoute("HTTPRoute", "evil", "api", "/", "a.www.bank.com")))
	c.try("a wildcard below another's", taken, c.created(rule("evil", "web", "*.www.bank.com", "/", "api")))
	c.try("the domain itself", "", c.created(rule("evil", "web", "bank.com", "/", "api")))

	t.Log("paths, where they are shared")
	c.change("x", `{"spec":{"routeAdmission":{"namespaceOwnership":"InterNamespaceAllowed"}}}`)
	c.change("y", `{"spec":{"routeAdmission":{"namespaceOwnership":"InterNamespaceAllowed"}}}`)
	c.settle()
	c.try("the same path", taken, c.created(rule("evil", "web", "bank.example.com", "/", "api")))
	c.try("another path", "", c.created(rule("evil", "web", "bank.example.com", "/shop", "api")))
	c.try("a route of the same path", taken, c.created(gatewayRoute("HTTPRoute", "evil", "api", "/", "bank.example.com")))
	whole := gatewayRoute("GRPCRoute", "evil", "api", "", "bank.example.com")
	c.must(unstructured.SetNestedSlice(whole.Object, []any{map[string]any{"matches": []any{}, "backendRefs": []any{}}}, "spec", "rules"))
	c.try("a route of no path", taken, c.created(whole))
	c.try("a route of another path", "", c.created(gatewayRoute("HTTPRoute", "evil", "api", "/shop", "bank.example.com")))
	c.try("a route of the host as a whole", taken, c.created(gatewayRoute("TLSRoute", "evil", "api", "", "bank.example.com")))
	c.try("no host", "", c.created(rule("evil", "web", "", "/shop", "api")))

	t.Log("who goes leaves his hosts to others")
	c.must(c.admin.Delete(t.Context(), rule("bank", "web", "", "", "")))
	c.settle()
	c.try("the host of nobody", "", c.created(rule("evil", "web", "bank.example.com", "/", "api")))
}
