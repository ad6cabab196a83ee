package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// authority signs certificates of clients, as the cluster's own does. It also
// signs those of kubelets, if the controllers that approve and sign are run.
type authority struct{ cert, key []byte }

// life is the validity of a test's certificates before and after now.
const life = time.Hour

func newAuthority() (authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "apitest"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return authority{}.issue(template)
}

// issue returns a certificate and its key. It is self-signed if the authority
// has no certificate yet.
func (a authority) issue(template *x509.Certificate) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-life), time.Now().Add(life)
	parent, signer := template, key
	if a.cert != nil {
		if parent, signer, err = a.parse(); err != nil {
			return authority{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return authority{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return authority{}, err
	}
	return authority{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func (a authority) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(a.cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	block, _ = pem.Decode(a.key)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	return cert, key, err
}

// Anonymous returns access without any account.
func (a *API) Anonymous() *rest.Config {
	out := rest.CopyConfig(a.Config)
	out.BearerToken = ""
	return out
}

// WithToken returns access with a token.
func (a *API) WithToken(token string) *rest.Config {
	out := a.Anonymous()
	out.BearerToken = token
	return out
}

// WithCertificate returns access with a client certificate.
func (a *API) WithCertificate(cert, key []byte) *rest.Config {
	out := a.Anonymous()
	out.CertData, out.KeyData = cert, key
	return out
}

// As returns access as a user, with a certificate of the cluster's authority.
func (a *API) As(t *testing.T, user string, groups ...string) *rest.Config {
	t.Helper()
	own, err := a.authority.issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.WithCertificate(own.cert, own.key)
}

// AsServiceAccount returns access as a service account, with no more than its
// rights.
func (a *API) AsServiceAccount(namespace, name string) *rest.Config {
	out := rest.CopyConfig(a.Config)
	out.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return out
}
