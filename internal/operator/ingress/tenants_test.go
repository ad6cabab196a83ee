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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answeredBy is the header in which a tenant's Service says whose it is.
const answeredBy = "Answered-By"

// tenant makes a namespace with a Service, which says of each answer that it is
// its own. It is reached as a node port on this machine's loopback address,
// where the API takes no endpoints.
func (c *cluster) tenant(namespace, service string) {
	c.t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = namespace
	if err := c.admin.Create(c.t.Context(), ns); !apierrors.IsAlreadyExists(err) {
		c.must(err)
	}
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

// rule is an Ingress of one rule, which leads to a Service of its namespace.
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

// whose is who answers for a host and a path, empty where no tenant does.
func (r *router) whose(port int32, host, path string) string {
	_, header := r.ask("http", port, host, path, nil)
	return header.Get(answeredBy)
}

// shows is the name in the certificate that a client which asks for a host sees.
func (r *router) shows(port int32, host string) string {
	r.t.Helper()
	ctx, done := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer done()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: host}}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:gosec // to see what it shows
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	secure, _ := conn.(*tls.Conn)
	return secure.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestNamesThatAreJoinedAreNobodyElses: whoever has namespace shop can name an
// Ingress, a Service and a Secret so that, joined by hyphens, they are those of
// namespace shop-prod.
func TestNamesThatAreJoinedAreNobodyElses(t *testing.T) {
	r, ports := onPorts(t)
	c := r.c
	c.tenant("shop-prod", "api")
	c.tenant("shop", "prod-api")
	c.settle()
	c.create(c.secured(rule("shop-prod", "web", "shop.example.com", "/", "api"), "tls"))
	c.create(c.secured(rule("shop", "prod-web", "shop-example.com", "/", "prod-api"), "prod-tls"))
	c.create(rule("shop", "last", "last.example.com", "/", "prod-api"))
	r.start()
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
