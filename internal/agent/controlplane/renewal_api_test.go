package controlplane

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/agent/kubeletcert"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// expiredWorker is a worker with an expired certificate, and a control plane's
// configuration server.
type expiredWorker struct {
	*joiningCluster
	*kubeletcert.Keeper
	name, server string
	old          tls.Certificate
	renewer      *admission.Renewer
	later        time.Duration // by which the control plane's clock is ahead
}

func newExpiredWorker(t *testing.T, name string) *expiredWorker {
	t.Helper()
	w := &expiredWorker{joiningCluster: newJoiningCluster(t), name: name}
	w.node(name, false)
	w.lease(25 * time.Minute)
	fresh, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := *w.agent.Site
	s.Identity.ConfigCA = fresh.ConfigCA
	w.serve(&s)
	w.Keeper = &kubeletcert.Keeper{
		Root: t.TempDir(), Servers: func() []string { return []string{w.server} }, Name: s.APIName(), CA: s.Identity.ConfigCA.Cert, Now: time.Now,
		Running: func() (string, error) { return "", nil },
	}
	pair := w.expire()
	if w.old, err = tls.X509KeyPair(pair, pair); err != nil {
		t.Fatal(err)
	}
	link := w.Root + kubeadm.KubeletCertificate
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(filepath.Dir(link), "kubelet-client-2026-01-01-00-00-00.pem")
	if err := os.WriteFile(first, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(first, link); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve runs the configuration server with the agent's own decision.
func (w *expiredWorker) serve(s *site.Site) {
	w.t.Helper()
	bundle, _ := w.api.Authority(w.t)
	w.renewer = w.agent.renewer()
	w.renewer.Authorities = func() ([]byte, error) { return bundle, nil }
	w.renewer.Now = func() time.Time { return time.Now().Add(w.later) }
	certificate, err := keys.Serving(s, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = configserver.NewServer(configserver.New(configserver.Options{Renew: w.renewer.Renew, Logf: w.agent.logf}),
		&tls.Config{Certificates: []tls.Certificate{certificate}})
	server.TLS = server.Config.TLSConfig
	server.StartTLS()
	w.t.Cleanup(server.Close)
	w.server = server.Listener.Addr().String()
}

// expire returns a certificate of the worker that the cluster's authority issued
// and that ended twenty minutes ago, with its key.
func (w *expiredWorker) expire() []byte {
	w.t.Helper()
	bundle, key := w.api.Authority(w.t)
	authority, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.api.As(w.t, "system:node:"+w.name, "system:nodes")
	valid, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "system:node:" + w.name, Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-30 * time.Minute), NotAfter: time.Now().Add(-20 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority.Leaf, valid.Leaf.PublicKey, authority.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), config.KeyData...)
}

// lease makes the worker's Lease, renewed a while ago, in place of another one.
func (w *expiredWorker) lease(ago time.Duration) {
	w.t.Helper()
	leases, at := w.admin.CoordinationV1().Leases(kube.NodeLeases), metav1.NewMicroTime(time.Now().Add(-ago))
	_ = leases.Delete(w.t.Context(), w.name, metav1.DeleteOptions{}) // there may be none
	until(w.t, "the Lease", func() error {
		_, err := leases.Create(w.t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &w.name, RenewTime: &at},
		}, metav1.CreateOptions{})
		return err
	})
}

// again shows the old certificate once more.
func (w *expiredWorker) again() error {
	w.later += time.Minute
	client := configserver.Client{Addresses: []string{w.server}, ServerName: w.Name, CA: w.CA, Certificate: w.old}
	defer client.Close()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{RawSubject: w.old.Leaf.RawSubject}, w.old.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = client.Renew(w.t.Context(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return err
}

// TestAnExpiredWorkerComesBackAndNobodyElse plays the renewal with the API server
// and the controller manager of the release, by the agent's own account.
func TestAnExpiredWorkerComesBackAndNobodyElse(t *testing.T) {
	w := newExpiredWorker(t, "worker-6")
	before := w.api.WithCertificate(certificateOf(t, w.Root))
	if _, err := w.as(before).CoreV1().Nodes().Get(t.Context(), w.name, metav1.GetOptions{}); err == nil {
		t.Fatal("the API server takes the expired certificate")
	}
	until(t, "another certificate", func() error {
		w.later += time.Minute // not to wait between two requests
		_, err := w.Task().Step(t.Context())
		return err
	})
	after := w.as(w.api.WithCertificate(certificateOf(t, w.Root)))
	if _, err := after.CoreV1().Nodes().Get(t.Context(), w.name, metav1.GetOptions{}); err != nil {
		t.Errorf("the kubelet cannot read its Node: %v", err)
	}
	if _, err := after.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the certificate opens more than a kubelet's")
	}
	w.approvedWithAReason()

	if err := w.again(); err != nil {
		t.Errorf("asked again before kubelet started: %v", err)
	}
	w.lease(time.Minute) // kubelet runs with the new certificate
	if err := w.again(); err == nil || !strings.Contains(err.Error(), "this is an old copy") {
		t.Errorf("with a copy of the old key: %v", err)
	}
	w.lease(25 * time.Minute)
	if err := w.admin.CoreV1().Nodes().Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.again(); err == nil || !strings.Contains(err.Error(), "has no Node worker-6 any more") {
		t.Errorf("after somebody deleted the Node: %v", err)
	}
	w.node(w.name, false, "node-role.kubernetes.io/control-plane")
	if err := w.again(); err == nil || !strings.Contains(err.Error(), "worker-6 is no worker") {
		t.Errorf("by the name of a control plane: %v", err)
	}
}

// certificateOf returns the certificate and the key of a host's kubelet.
func certificateOf(t *testing.T, root string) (cert, key []byte) {
	t.Helper()
	pair, err := os.ReadFile(root + kubeadm.KubeletCertificate)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(pair)
	return pem.EncodeToMemory(block), rest
}

// approvedWithAReason checks what a person finds in the API and in the log.
func (w *expiredWorker) approvedWithAReason() {
	w.t.Helper()
	list, err := w.admin.CertificatesV1().CertificateSigningRequests().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	found := 0
	for _, r := range list.Items {
		if !strings.HasPrefix(r.Name, "expired-"+w.name) {
			continue
		}
		found++
		if r.Spec.Username != site.AgentUser("cp-1") || len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Reason != "ExpiredCertificate" {
			w.t.Errorf("%s by %s: %+v", r.Name, r.Spec.Username, r.Status.Conditions)
		}
	}
	if found != 1 || !strings.Contains(w.log.String(), "ExpiredCertificate") {
		w.t.Errorf("%d requests in the API; the log:\n%s", found, w.log.String())
	}
}
