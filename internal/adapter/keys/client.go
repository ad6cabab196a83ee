package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/holdfast/holdfast/internal/model/config"
)

// ClientLifetime is the lifetime of a client's certificate for etcd or the API, where the
// site has no shorter one. Whoever maintains one makes another when two thirds of it are
// over, forty days before its end. So a certificate with less than thirty days left, of
// which doctor warns, is one that nobody maintains. With twenty days left, a sixth of the
// life, an alert says that it is late.
const ClientLifetime = 120 * 24 * time.Hour

// ClientLife returns the life of a client's certificate in a site with this
// certificateValidityPeriod.
func ClientLife(period time.Duration) time.Duration {
	return config.ShorterLife(ClientLifetime, period)
}

// Client makes a client's certificate and its key, one after the other in one PEM text. So
// one file replaces one file, and no reader ever sees a certificate beside the key of
// another one. The CA in the bundle that belongs to authorityKey signs it. It is valid from that
// CA's first day on: a host whose clock is days behind takes it all the same.
func Client(name pkix.Name, bundle, authorityKey string, life time.Duration, now time.Time) (string, error) {
	parent, parentKey, err := signing(bundle, authorityKey)
	if err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: name,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		NotBefore: parent.NotBefore, NotAfter: earlier(now.Add(life), parent.NotAfter),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	return encodePEM("CERTIFICATE", der) + encodePEM("EC PRIVATE KEY", secret), nil
}

// ClientServes reports whether a certificate made by Client may stay in use: it has this
// name and these groups, the present CA has signed it, its key belongs to it, and a third of
// a life is left, or as much as another one would have. It begins with its CA, so nothing in
// it tells its life: that of a new one counts. One of which more is left than that was made
// while the clock was ahead, or for a longer life.
func ClientServes(pair string, name pkix.Name, bundle, authorityKey string, life time.Duration, now time.Time) bool {
	parent, _, err := signing(bundle, authorityKey)
	if err != nil {
		return false
	}
	cert, err := parseCertificate(pair)
	if err != nil || cert.Subject.String() != name.String() || cert.CheckSignatureFrom(parent) != nil {
		return false
	}
	_, rest := pem.Decode([]byte(pair))
	key, err := parseSigner(string(rest))
	if err != nil || !owns(key, cert) {
		return false
	}
	left, gains := cert.NotAfter.Sub(now), cert.NotAfter.Before(parent.NotAfter)
	return !now.Before(cert.NotBefore) && left > 0 && left <= life+min(backdate, life) && (left > life/3 || !gains)
}

// SigningPair returns the CA of a bundle that belongs to a key, and that key, one after the
// other in one PEM text.
func SigningPair(bundle, key string) (string, error) {
	cert, _, err := signing(bundle, key)
	if err != nil {
		return "", err
	}
	return encodePEM("CERTIFICATE", cert.Raw) + key, nil
}

// SplitPair returns the certificates of a PEM text, and what else is in it: their key.
func SplitPair(pair string) (cert, key string) {
	for block, rest := pem.Decode([]byte(pair)); block != nil; block, rest = pem.Decode(rest) {
		text := string(pem.EncodeToMemory(block))
		if block.Type == "CERTIFICATE" {
			cert += text
		} else {
			key += text
		}
	}
	return cert, key
}

// signing returns the CA of a bundle that belongs to a key: while CAs change, the bundle
// holds both.
func signing(bundle, key string) (*x509.Certificate, crypto.Signer, error) {
	signer, err := parseSigner(key)
	if err != nil {
		return nil, nil, fmt.Errorf("key of the authority: %w", err)
	}
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && owns(signer, cert) {
			return cert, signer, nil
		}
	}
	return nil, nil, errors.New("no certificate of the bundle of authorities belongs to their key")
}

func owns(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}
