package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// authority signs the certificates of one site.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(t, "ca", template, nil, nil)
	return a
}

// identity returns a certificate for both directions that holds the address.
func (a *authority) identity(t *testing.T, name, address string) takeover.TLS {
	t.Helper()
	template := &x509.Certificate{
		IPAddresses: []net.IP{net.ParseIP(address), net.ParseIP("127.0.0.1")},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	a.sign(t, name, template, a.cert, a.key)
	path := func(ext string) string { return filepath.Join(a.dir, name+ext) }
	return takeover.TLS{CA: filepath.Join(a.dir, "ca.crt"), Cert: path(".crt"), Key: path(".key")}
}

func (a *authority) sign(t *testing.T, name string, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	if parent == nil {
		parent, signer = template, key
	}
	template.Subject = pkix.Name{CommonName: name}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	writePEM(t, filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(a.dir, name+".key"), "PRIVATE KEY", secret)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
