package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAKubeletServesForItselfAlone plays kubelets that request the certificates by
// which they serve, with the rights and the signer of a real cluster.
func TestAKubeletServesForItselfAlone(t *testing.T) {
	c := newJoiningCluster(t)
	c.runAgent()
	const name, own, planes = "worker-that-serves", "192.0.2.25", "192.0.2.11"
	c.addressed("cp-1", planes)
	t.Cleanup(func() {
		_ = c.admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
	client := c.ask(c.api.WithToken(c.tokenFor(name, state.RoleWorker).Token), "serves-client", "system:node:"+name, "system:nodes")
	if kind, reason := c.decided(client, soon); kind != certificatesv1.CertificateApproved {
		t.Fatalf("its client certificate: %s %s", kind, reason)
	}
	kubelet := c.issued(client)
	set := c.as(kubelet)
	if _, err := set.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// It reports the address of a control plane beside its own, which nothing refuses.
	status := `{"status":{"addresses":[{"type":"InternalIP","address":"` + own + `"},{"type":"InternalIP","address":"` + planes + `"},{"type":"Hostname","address":"` + name + `"}]}}`
	if _, err := set.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	vip := c.agent.Site.VIPs()[0].String()
	for _, x := range []struct{ csr, dns, address, reason string }{
		{"serves-own", name, own, "OwnServing"},
		{"serves-name", "cp-1", own, "AnothersName"},
		{"serves-address", name, planes, "AnothersAddress"},
		{"serves-vip", name, vip, "ReservedAddress"},
		{"serves-nobodys", name, "192.0.2.77", "NotItsAddress"},
	} {
		t.Run(x.csr, func(t *testing.T) {
			c.t = t
			cert := c.askServing(kubelet, x.csr, name, x.dns, x.address)
			kind, reason := c.decided(cert, soon)
			if reason != x.reason || (kind == certificatesv1.CertificateApproved) != (x.reason == "OwnServing") {
				t.Fatalf("%s %s", kind, reason)
			}
			if kind != certificatesv1.CertificateApproved {
				return
			}
			block, _ := pem.Decode(c.issued(cert).CertData)
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil || leaf.VerifyHostname(own) != nil || leaf.VerifyHostname(name) != nil || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
				t.Errorf("%+v, %v", leaf, err)
			}
		})
	}
	c.t = t
}

// addressed gives a Node an address.
func (c *joiningCluster) addressed(name, address string) {
	c.t.Helper()
	n, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	if _, err := c.admin.CoreV1().Nodes().UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// askServing requests a serving certificate as a kubelet does.
func (c *joiningCluster) askServing(as *rest.Config, csr, node, dns, address string) certificate {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{dns}, IPAddresses: []net.IP{net.ParseIP(address)},
	}, key)
	if err != nil {
		c.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = c.as(as).CertificatesV1().CertificateSigningRequests().Create(c.t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: csr},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return certificate{csr, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})}
}
