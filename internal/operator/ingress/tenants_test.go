package ingress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// answeredBy is the header in which a tenant's Service names its tenant.
const answeredBy = "Answered-By"

// tenant makes a namespace with a Service that marks each answer as its own. It
// is reached at a node port on this machine's loopback address, because the API
// accepts no endpoints there.
func (c *cluster) tenant(namespace, service string) {
	c.t.Helper()
	c.namespaces(namespace)
	node := &corev1.Node{}
	c.get("", "cp-1", node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	c.must(c.admin.Status().Update(c.t.Context(), node))
	s := &corev1.Service{
		ObjectMeta: objectMeta(namespace, service),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	s.Annotations = map[string]string{"traefik.ingress.kubernetes.io/service.nodeportlb": "true"}
	c.create(s)
	listener, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.Spec.Ports[0].NodePort))
	c.must(err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(answeredBy, namespace+"/"+service)
		}),
	}}
	server.Start()
	c.t.Cleanup(server.Close)
}

// rule returns an Ingress of one rule, which leads to a Service of its namespace.
func rule(namespace, name, host, path, service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: objectMeta(namespace, name), Spec: networkingv1.IngressSpec{
		IngressClassName: new("openshift-x"),
		Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{
				Path: path, PathType: new(networkingv1.PathTypeImplementationSpecific),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}},
		}}}},
	}}
}

// secured gives an Ingress a certificate for its host, from a Secret.
func (c *cluster) secured(i *networkingv1.Ingress, secret string) *networkingv1.Ingress {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.must(err)
	host := i.Spec.Rules[0].Host
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	c.must(err)
	der8, err := x509.MarshalPKCS8PrivateKey(key)
	c.must(err)
	c.create(&corev1.Secret{ObjectMeta: objectMeta(i.Namespace, secret), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8}),
	}})
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: secret}}
	return i
}

// whose returns who answers for a host and a path, empty if no tenant does.
func (r *router) whose(port int32, host, path string) string {
	_, header := r.ask("http", port, host, path, nil)
	return header.Get(answeredBy)
}

// shows returns the name in the certificate that a client sees when it asks for a
// host.
func (r *router) shows(port int32, host string) string {
	r.t.Helper()
	ctx, done := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer done()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: host}}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	secure, _ := conn.(*tls.Conn)
	return secure.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// startBriefly starts a router that leaves at once when the test ends.
func (r *router) startBriefly() {
	settled := r.rendered(configv1.HighlyAvailableTopologyMode)
	settled.Drain = decide.Drain{Finish: time.Second}
	r.args = render.Arguments(settled)
	r.start()
}

// TestNamesThatAreJoinedAreNobodyElses: an owner of namespace shop can name an
// Ingress, a Service and a Secret so that, joined by hyphens, the names are those
// of namespace shop-prod.
func TestNamesThatAreJoinedAreNobodyElses(t *testing.T) {
	r, ports := onPorts(t)
	c := r.c
	c.tenant("shop-prod", "api")
	c.tenant("shop", "prod-api")
	c.settle()
	c.create(c.secured(rule("shop-prod", "web", "shop.example.com", "/", "api"), "tls"))
	c.create(c.secured(rule("shop", "prod-web", "shop-example.com", "/", "prod-api"), "prod-tls"))
	c.create(rule("shop", "last", "last.example.com", "/", "prod-api"))
	c.copyCertificates()
	r.startBriefly()
	r.until("it serves the last Ingress", func() bool { return r.whose(ports[0], "last.example.com", "/") != "" })
	for host, want := range map[string]string{
		"shop.example.com": "shop-prod/api", "shop-example.com": "shop/prod-api", "last.example.com": "shop/prod-api",
	} {
		if got := r.whose(ports[0], host, "/"); got != want {
			t.Errorf("%s is answered for by %q, want %q", host, got, want)
		}
	}
	for _, host := range []string{"shop.example.com", "shop-example.com"} {
		if got := r.shows(ports[1], host); got != host {
			t.Errorf("%s is shown a certificate for %q", host, got)
		}
	}
}

// unbound removes the policies of Ingresses and routes until the end of the test:
// what tenants make then stands for what they made before there were policies.
func (c *cluster) unbound() {
	c.t.Helper()
	for _, name := range []string{render.ShapePolicyName, render.HostsPolicyName} {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("admissionregistration.k8s.io/v1")
		binding.SetKind("ValidatingAdmissionPolicyBinding")
		c.get("", name, binding)
		c.must(c.admin.Delete(c.t.Context(), binding))
		c.t.Cleanup(func() {
			binding.SetResourceVersion("")
			binding.SetUID("")
			c.must(c.admin.Create(context.WithoutCancel(c.t.Context()), binding))
		})
	}
	c.try("what the policies refuse", "", c.created(rule("default", "evil", "", "/`", "api")))
}

// TestRoutersKeepWhatIsTheirs plays objects that no policy refused, because they
// are older, or an administrator made them: those of docs/attacks.md, F9, by an
// Ingress and by a Gateway, and every way to the routers' API.
func TestRoutersKeepWhatIsTheirs(t *testing.T) {
	r, ports := onPorts(t)
	c := r.c
	c.tenant("bank", "web")
	c.tenant("evil", "web")
	c.settle()
	c.unbound()
	const prefix = "traefik.ingress.kubernetes.io/"
	paths := render.Traefik{}.Paths(r.rendered(configv1.HighlyAvailableTopologyMode))
	for i, path := range []string{paths.Ready, paths.Alive, paths.Started, "/metrics"} {
		evil := rule("evil", fmt.Sprintf("health-%d", i), "", path, "web")
		evil.Annotations = map[string]string{prefix + "router.entrypoints": "metrics", prefix + "router.priority": "1000000"}
		c.create(evil)
	}
	c.create(rule("bank", "web", "bank.example.com", "/", "web"))
	c.create(rule("evil", "rule", "mine.example.com", "/x`)) || (HostRegexp(`.+", "web"))
	c.create(rule("evil", "quoted", "mine.example.com", `/x")) || (HostRegexp(".+`, "web"))
	for key, value := range map[string]string{"service.serverstransport": "default@internal", "service.middlewares": "holdfast-alive@file"} {
		name := strings.ReplaceAll(key, ".", "-")
		c.tenant("evil", name)
		s := &corev1.Service{ObjectMeta: objectMeta("evil", name)}
		c.must(c.admin.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, prefix+key, value)))))
		c.create(rule("evil", name, name+".example.com", "/", name))
	}
	for name, annotation := range map[string]string{"middlewares": "router.middlewares", "options": "router.tls.options"} {
		evil := rule("evil", name, name+".example.com", "/", "web")
		evil.Annotations = map[string]string{prefix + annotation: "holdfast-alive@file"}
		c.create(evil)
	}
	for i, port := range []int32{ports[0], ports[2]} {
		c.create(gatewayOf("evil", fmt.Sprintf("gateway-%d", i), port))
		for kind, backend := range map[string]string{"api": "TraefikService.traefik.io/api@internal", "web": "web"} {
			evil := gatewayRoute("HTTPRoute", "evil", backend, "/", kind+".example.com", "localhost")
			evil.SetName(fmt.Sprintf("%s-%d", kind, i))
			c.must(unstructured.SetNestedSlice(evil.Object, []any{map[string]any{"name": fmt.Sprintf("gateway-%d", i)}}, "spec", "parentRefs"))
			c.create(evil)
		}
	}
	c.create(rule("evil", "last", "last.example.com", "/", "web"))
	r.startBriefly()
	r.until("it serves the last Ingress", func() bool { return r.whose(ports[0], "last.example.com", "/") != "" })
	// Nothing here has endpoints; a route answers 500 then.
	r.until("and the Gateways' routes", func() bool {
		return r.answer("http", ports[0], "web.example.com", "/", nil) == http.StatusInternalServerError &&
			r.answer("http", ports[2], "web.example.com", "/", nil) == http.StatusInternalServerError
	})

	for _, path := range []string{paths.Ready, paths.Alive, paths.Started, "/metrics"} {
		for _, name := range []string{"localhost", "web.example.com"} {
			if code, header := r.ask("http", ports[2], name, path, nil); code != http.StatusOK || header.Get(answeredBy) != "" {
				t.Errorf("%s of %s on the port for statistics: %d of %q", path, name, code, header.Get(answeredBy))
			}
		}
	}
	if got := r.header(ports[2], paths.Ready); got != "x" {
		t.Errorf("it says that it is of %q", got)
	}
	if got := r.whose(ports[0], "bank.example.com", "/"); got != "bank/web" {
		t.Errorf("the bank is answered for by %q", got)
	}
	for _, path := range []string{"/api/rawdata", "/api/http/routers", "/api/version", "/"} {
		for _, name := range []string{"api.example.com", "middlewares.example.com", "service-middlewares.example.com"} {
			for _, port := range []int32{ports[0], ports[2]} {
				if code := r.answer("http", port, name, path, nil); code == http.StatusOK {
					t.Errorf("%s of %s on port %d is answered", path, name, port)
				}
			}
		}
	}
	for _, name := range []string{"middlewares", "options", "service-middlewares", "service-serverstransport"} {
		if got := r.whose(ports[0], name+".example.com", "/"); got != "" {
			t.Errorf("what another provider has is used by %s", name)
		}
	}

	t.Log("what was there before is told, to the administrator and where its owner looks")
	c.create(rule("evil", "later", "bank.example.com", "/login", "web"))
	events := &recorder{}
	c.r.Events = events
	c.settle()
	c.says("x", "HostsOwned=False/HostTaken Degraded=False")
	said := condition(c.controller("x").Status.Conditions, decide.HostsOwned).Message
	if !strings.Contains(said, "Ingress evil/later claims bank.example.com, which namespace bank claimed first") || !strings.Contains(said, "Ingress evil/health-0 claims every host") {
		t.Errorf("%q", said)
	}
	if got := events.about("HostTaken"); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "evil/later claims bank.example.com") {
		t.Errorf("%q", got)
	}
}

// gatewayOf returns a Gateway of the routers' class on a port.
func gatewayOf(namespace, name string, port int32) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"gatewayClassName": "openshift-x",
		"listeners":        []any{map[string]any{"name": "http", "port": int64(port), "protocol": "HTTP"}},
	}}}
	o.SetAPIVersion("gateway.networking.k8s.io/v1")
	o.SetKind("Gateway")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
