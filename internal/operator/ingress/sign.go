package ingress

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// pair holds a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// newAuthority makes an authority. One that takes the place of a former one is valid from the
// same day on: if the clock was ahead when that one seemed to have ended, clients take the new
// one all the same once the clock is right.
func newAuthority(random io.Reader, now time.Time, former *x509.Certificate) (pair, error) {
	serial, err := serialNumber(random)
	if err != nil {
		return pair{}, err
	}
	from := now.Add(-decide.Backdate)
	if former != nil && former.NotBefore.Before(from) {
		from = former.NotBefore
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("ingress-operator@%d", now.Unix())},
		NotBefore: from, NotAfter: now.Add(decide.AuthorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return sign(template, nil, nil)
}

// newLeaf makes a certificate for a domain. It ends no later than its authority.
func newLeaf(random io.Reader, authority map[string][]byte, domain string, life time.Duration, now time.Time) (pair, error) {
	issuer, err := decide.ParsePair(authority[corev1.TLSCertKey], authority[corev1.TLSPrivateKeyKey])
	if err != nil {
		return pair{}, fmt.Errorf("read Secret %s/%s: %w", decide.Namespace, decide.AuthoritySecret, err)
	}
	signer, err := decide.ParseKey(authority[corev1.TLSPrivateKeyKey])
	if err != nil {
		return pair{}, err
	}
	serial, err := serialNumber(random)
	if err != nil {
		return pair{}, err
	}
	end := now.Add(life)
	if issuer.NotAfter.Before(end) {
		end = issuer.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName("*." + domain)},
		DNSNames: []string{"*." + domain}, NotBefore: now.Add(-decide.Backdate), NotAfter: end, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return sign(template, issuer, signer)
}

// commonName shortens a name to the limit of X.509; clients look at the
// alternative names.
func commonName(name string) string { return name[:min(len(name), 64)] }

func serialNumber(random io.Reader) (*big.Int, error) {
	data := make([]byte, 16)
	if _, err := io.ReadFull(random, data); err != nil {
		return nil, err
	}
	data[0] &= 0x7f
	return new(big.Int).SetBytes(data), nil
}

// sign makes a key and a certificate for it; without an issuer the certificate is
// self-signed.
func sign(template, issuer *x509.Certificate, signer crypto.Signer) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if issuer == nil {
		issuer, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}
