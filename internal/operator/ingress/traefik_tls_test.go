package ingress

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/operator/certificates"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// certified makes a namespace with a certificate for a host, and returns its Secret.
func (c *cluster) certified(namespace, host string) *corev1.Secret {
	c.t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	c.must(client.IgnoreAlreadyExists(c.admin.Create(c.t.Context(), made)))
	p, err := sign(&x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, nil, nil)
	c.must(err)
	o := &corev1.Secret{ObjectMeta: objectMeta(namespace, "tls"), Data: map[string][]byte{corev1.TLSCertKey: p.cert, corev1.TLSPrivateKeyKey: p.key}}
	c.create(o)
	return o
}

// certificateFor returns the name in the certificate that a client gets when it
// asks for a name.
func (r *router) certificateFor(port int32, name string) string {
	r.t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}}).DialContext(r.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	secure, _ := conn.(*tls.Conn)
	return strings.Join(secure.ConnectionState().PeerCertificates[0].DNSNames, " ")
}

// copyCertificates copies what Ingresses and Gateways name, as the operator does.
func (c *cluster) copyCertificates() {
	c.t.Helper()
	_, err := (&certificates.Reconciler{Client: c.r.Client, Routes: c.r.Client, Live: c.r.Client}).Reconcile(c.t.Context(), ctrl.Request{})
	c.must(err)
}

// TestATenantsCertificateIsServedByARouterThatReadsNoSecretOfHis: a namespace is
// made while a router runs. Within seconds the same process serves its
// certificate, and old connections go on. The same holds for a Gateway's
// certificate, of another namespace.
func TestATenantsCertificateIsServedByARouterThatReadsNoSecretOfHis(t *testing.T) {
	r, ports := onPorts(t)
	c := r.c
	c.route("mine", "openshift-x")
	r.start()
	roots := r.roots()
	r.until("it serves", func() bool { return r.answer("https", ports[1], "mine.x.example", "/", roots) > 0 })
	kept, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	c.must(err)
	defer func() { _ = kept.Close() }()
	ask := func() error {
		_, err := fmt.Fprint(kept, "GET / HTTP/1.1\r\nHost: nobody.x.example\r\n\r\n")
		c.must(err)
		c.must(kept.SetReadDeadline(time.Now().Add(5 * time.Second)))
		answer := make([]byte, 4096)
		n, err := kept.Read(answer)
		if err == nil && !strings.Contains(string(answer[:n]), "503 Service Unavailable") {
			err = fmt.Errorf("it says %q", answer[:n])
		}
		return err
	}
	c.must(ask())

	secret := c.certified("shop", "bank.shop.example")
	class := "openshift-x"
	c.create(&networkingv1.Ingress{ObjectMeta: objectMeta("shop", "bank"), Spec: networkingv1.IngressSpec{
		IngressClassName: &class, TLS: []networkingv1.IngressTLS{{SecretName: "tls"}},
		Rules: []networkingv1.IngressRule{{Host: "bank.shop.example"}},
	}})
	began := time.Now()
	c.copyCertificates()
	r.until("the tenant's certificate is served", func() bool { return r.certificateFor(ports[1], "bank.shop.example") == "bank.shop.example" })
	t.Logf("a new namespace is served with its certificate after %s", time.Since(began).Round(time.Millisecond))
	c.must(ask())

	c.certified("edge", "gate.edge.example")
	gateway := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"gatewayClassName": class,
		"listeners": []any{map[string]any{"name": "tls", "port": int64(ports[1]), "protocol": "HTTPS", "tls": map[string]any{
			"certificateRefs": []any{map[string]any{"name": "tls"}},
		}}},
	}}}
	gateway.SetGroupVersionKind(schema.GroupVersionKind{Group: decide.GatewayGroup, Version: "v1", Kind: "Gateway"})
	gateway.SetNamespace("edge")
	gateway.SetName("gate")
	// The operator's part has a test of its own: this one is the routers' part.
	var mine corev1.Secret
	c.get("edge", "tls", &mine)
	c.create(&corev1.Secret{ObjectMeta: objectMeta(decide.CertificatesNamespace, "edge.tls"), Data: mine.Data})
	c.create(gateway)
	r.until("the Gateway's certificate is served", func() bool { return r.certificateFor(ports[1], "gate.edge.example") == "gate.edge.example" })

	c.must(c.admin.Delete(t.Context(), secret))
	c.copyCertificates()
	r.until("a certificate that is gone is served no more", func() bool { return r.certificateFor(ports[1], "bank.shop.example") != "bank.shop.example" })
	c.must(ask())
	if got := r.answer("https", ports[1], "mine.x.example", "/", roots); got == 0 || got == http.StatusServiceUnavailable {
		t.Errorf("its other Ingress: %d", got)
	}
	if strings.Contains(r.said(), "forbidden") {
		t.Error("it asked for more than it may read")
	}
}

// TestNoRouterIsMadeBeforeWhatItServesIsCopied also shows that no router of an
// earlier release is replaced; one that reads copies follows its
// IngressController as ever.
func TestNoRouterIsMadeBeforeWhatItServesIsCopied(t *testing.T) {
	c := newCluster(t)
	copied := false
	c.r.Copied = func() bool { return copied }
	c.make("x", `{"domain":"x.example","replicas":1,"endpointPublishingStrategy":{"type":"Private"}}`)
	c.settle()
	if c.there(decide.OperandNamespace, decide.RouterName("x"), &appsv1.Deployment{}) {
		t.Error("routers are made that would serve the default certificate in place of others")
	}
	copied = true
	c.settle()
	c.deployment("x")

	t.Log("an operator that was just started, and routers of an earlier release")
	copied = false
	former := c.deployment("x")
	former.Spec.Template.Spec.Containers[0].Env = nil
	c.must(c.admin.Update(t.Context(), former))
	c.change("x", `{"spec":{"replicas":2}}`)
	c.settle()
	if d := c.deployment("x"); *d.Spec.Replicas != 1 || render.ReadsCopies(&d.Spec.Template.Spec) {
		t.Error("they are replaced before what they serve is copied")
	}
	copied = true
	c.settle()
	if d := c.deployment("x"); *d.Spec.Replicas != 2 || !render.ReadsCopies(&d.Spec.Template.Spec) {
		t.Error("they are not replaced")
	}
	copied = false
	c.change("x", `{"spec":{"replicas":3}}`)
	c.settle()
	if d := c.deployment("x"); *d.Spec.Replicas != 3 {
		t.Error("routers that read copies wait for an operator that was just started")
	}
}
