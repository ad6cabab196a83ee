package upgrade

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// TestU73_TheEndsOfCertificatesAreThoseOfTheFiles, also where the first of them ends soon; a
// host with a file that cannot be read tells nothing.
func TestU73_TheEndsOfCertificatesAreThoseOfTheFiles(t *testing.T) {
	root := t.TempDir()
	ends := map[string]time.Time{
		"/etc/kubernetes/pki/apiserver.crt":                time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		"/var/lib/kubelet/pki/kubelet-client-current.pem":  time.Date(2027, 11, 1, 0, 0, 0, 0, time.UTC),
		"/etc/kubernetes/pki/apiserver-kubelet-client.crt": time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC),
	}
	for path, end := range ends {
		putFile(t, filepath.Join(root, path), endsAt(t, end))
	}
	list, err := certificates(root)
	if err != nil || len(list) != len(ends) {
		t.Fatalf("%+v %v", list, err)
	}
	for _, c := range list {
		if c != (gate.Certificate{Name: c.Name, Ends: ends[c.Name]}) || c.Ends.IsZero() {
			t.Errorf("%+v, want the end %s", c, ends[c.Name])
		}
	}
	putFile(t, filepath.Join(root, "/etc/kubernetes/pki/apiserver.crt"), "torn")
	if f := known(certificates(root)); f.Known {
		t.Errorf("a file that is torn: %+v", f)
	}
}

func endsAt(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
