package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
)

// certificate returns PEM with another block first, then a certificate that ends
// at end.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PARAMETERS", Bytes: []byte{1}}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

func told(t *testing.T, root string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(Collector{Root: root}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestEachCertificateOfAHostSaysWhenItEnds(t *testing.T) {
	root := t.TempDir()
	end := time.Now().Add(20 * 24 * time.Hour).Truncate(time.Second)
	cert := certificate(t, end)
	for path, data := range map[string][]byte{
		"/etc/kubernetes/pki/apiserver.crt":               cert,
		"/etc/kubernetes/pki/etcd/server.crt":             cert,
		"/var/lib/kubelet/pki/kubelet-client-current.pem": cert,
		"/var/lib/kubelet/pki/kubelet-server-current.pem": cert,
		"/etc/kubernetes/pki/holdfast-agent.pem":          cert,
		"/etc/kubernetes/admin.conf":                      []byte("users:\n- name: a\n  user:\n    client-certificate-data: " + base64.StdEncoding.EncodeToString(cert) + "\n    client-key-data: aHVzaA==\n"),
		"/etc/kubernetes/kubelet.conf":                    []byte("users:\n- name: a\n  user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem}\n"),
		"/etc/kubernetes/pki/torn.crt":                    cert[:len(cert)/2],
		"/etc/kubernetes/pki/sa.pub":                      []byte("x"),
		"/etc/kubernetes/broken.conf":                     []byte("users: [\n"),
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := told(t, root)
	for _, file := range []string{
		"/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/etcd/server.crt",
		"/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem", "/etc/kubernetes/admin.conf", "/etc/kubernetes/pki/holdfast-agent.pem",
	} {
		if got[file] != metric.Seconds(end) {
			t.Errorf("%s ends at %v, want %v", file, got[file], metric.Seconds(end))
		}
	}
	if len(got) != 6 {
		t.Errorf("files without a certificate are told of: %v", got)
	}
	if len(told(t, t.TempDir())) != 0 {
		t.Error("a host without certificates tells of some")
	}
}
