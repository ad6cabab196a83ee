package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// kubeletsFile returns what kubelet keeps in one file: a certificate and its key.
func kubeletsFile(t *testing.T, subject string) (certificate, key []byte) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
}

// docs/facts/loss.md#hard-cases-of-loss, L74: a host that has joined keeps the name of its
// node, whatever it is called now, also by a certificate that has expired.
func TestL74AHostKeepsTheNameWithWhichItJoined(t *testing.T) {
	certificate, key := kubeletsFile(t, "system:node:cp-1")
	ofNode := slices.Concat(certificate, key)
	ofNobody, _ := kubeletsFile(t, "kubernetes-admin")
	for what, c := range map[string]struct {
		file         []byte
		called, want string
		fails        bool
	}{
		"it was not installed":               {nil, "cp-1", "cp-1", false},
		"it has joined":                      {ofNode, "cp-1", "cp-1", false},
		"DHCP gave it a full name":           {ofNode, "cp-1.site.example", "cp-1", false},
		"cloud-init gave it its first name":  {ofNode, "debian", "cp-1", false},
		"it has no name after a boot":        {ofNode, "localhost", "cp-1", false},
		"the key comes first":                {slices.Concat(key, certificate), "other", "cp-1", false},
		"a certificate that is for no node":  {ofNobody, "cp-1", "cp-1", false},
		"a file that a power cut left empty": {[]byte{}, "cp-1", "cp-1", false},
		"a certificate that cannot be read":  {[]byte("-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n"), "cp-1", "cp-1", false},
		"nobody says what it is called":      {nil, "", "", true},
		"it is not asked what it is called":  {ofNode, "", "cp-1", false},
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, NodeCertificate)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.file != nil {
				if err := os.WriteFile(path, c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := name(root, func() (string, error) {
				if c.called == "" {
					return "", errors.New("no name")
				}
				return c.called, nil
			})
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	if NodeCertificate != kubeadm.KubeletCertificate {
		t.Errorf("%s is not the certificate of kubelet, %s", NodeCertificate, kubeadm.KubeletCertificate)
	}
}
