package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/decide/joining"
)

// thief is root on worker-1, as the API server sees him.
type thief struct {
	name   string
	client *http.Client
	token  string
	// kubelet is set for kubelet's account.
	kubelet bool
}

// thieves returns all identities that root on a worker can have: by kubelet's
// own certificate, by the token of each account whose pod runs there, by the
// bootstrap token of a joining host, and as nobody.
func (c *cluster) thieves() []thief {
	c.t.Helper()
	anonymous, err := rest.HTTPClientFor(c.api.Anonymous())
	must(c.t, err)
	kubelet, err := rest.HTTPClientFor(c.api.As(c.t, "system:node:worker-1", "system:nodes"))
	must(c.t, err)
	out := []thief{
		{name: "nobody", client: anonymous},
		{name: "kubelet", client: kubelet, kubelet: true},
		{name: "a host that joins", client: anonymous, token: c.bootstrapToken()},
	}
	for _, account := range []string{routers, flannel, dns} {
		namespace, name, _ := strings.Cut(account, ":")
		out = append(out, thief{name: account, client: anonymous, token: c.tokenOf(namespace, name)})
	}
	return out
}

// bootstrapToken makes a token like the one that a joining host gets.
func (c *cluster) bootstrapToken() string {
	c.t.Helper()
	const id, secret = "evil01", "0123456789abcdef"
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": joining.Group,
			"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}
	must(c.t, c.admin.Create(c.t.Context(), s))
	return id + "." + secret
}

// request returns a request for an administrator's certificate.
func request(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "evil", Organization: []string{"system:masters"}}}, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestEachRefusedAttemptLeavesALine lets root on a worker try everything, with
// every identity that he can have there. The API server has the rendered
// rights, guards and audit policy.
func TestEachRefusedAttemptLeavesALine(t *testing.T) {
	c := newCluster(t)
	victim := boundPod(metav1.NamespaceSystem, "kube-apiserver-cp-1", "cp-1")
	victim.Name, victim.Spec.ServiceAccountName, victim.Spec.Volumes = "kube-apiserver-cp-1", "", nil
	must(t, c.admin.Create(t.Context(), victim))
	attempts := Attempts(Target{ControlPlane: "cp-1", Own: "worker-1", Request: request(t)})
	said := map[string]int{} // status of the answer, by agent
	quiet := map[string]bool{}
	for n, who := range c.thieves() {
		if who.name == flannel {
			c.untilGuarded(c.with(who.token))
		}
		for i, a := range attempts {
			agent := fmt.Sprintf("thief/%d-%d", n, i)
			answer, err := a.Try(t.Context(), who.client, c.api.Config.Host, who.token, agent)
			must(t, err)
			if !answer.Refused() || who.token != "" && answer.Status == http.StatusUnauthorized {
				t.Errorf("%s gets %s: %d %.300s", who.name, a.Name, answer.Status, answer.Body)
			}
			said[agent], quiet[agent] = answer.Status, a.Quiet && who.kubelet
		}
	}
	missing := map[string]bool{}
	c.until("each attempt is in the audit log", func() bool {
		log, err := c.api.Audit()
		must(t, err)
		seen := Records(log)
		clear(missing)
		for agent, status := range said {
			if seen[agent].ResponseStatus.Code != status && !quiet[agent] {
				missing[agent] = true
			}
			if _, recorded := seen[agent]; recorded && quiet[agent] {
				t.Errorf("%s is recorded, and is said not to be", agent)
			}
		}
		return len(missing) == 0
	}, func() string { return fmt.Sprint(missing) })
	t.Logf("%d attempts", len(said))
}
