package keys

import (
	"crypto/x509"
	"fmt"
	"time"
)

// Renew makes a certificate like an old one, for the same key and the same names,
// with another end. The CA in the bundle that belongs to authorityKey signs it. It
// is valid from the same day on as that CA: a clock that was ahead when it was
// made, or is behind where it is verified, makes no certificate invalid.
func Renew(old, key, bundle, authorityKey string, life time.Duration, now time.Time) (string, error) {
	return remake(old, key, bundle, authorityKey, now.Add(life), func(*x509.Certificate) {})
}

// Signer returns the CA of a bundle that belongs to a key, from which Renew would
// sign.
func Signer(bundle, authorityKey string) (*x509.Certificate, error) {
	cert, _, err := signing(bundle, authorityKey)
	return cert, err
}

// Leaf is a certificate with the times of its validity, and whether the key beside
// it belongs to it.
type Leaf struct {
	From, Ends time.Time
	Matches    bool
}

// ReadLeaf reads the first certificate of a PEM text, and its key.
func ReadLeaf(cert, key string) (Leaf, error) {
	parsed, err := parseCertificate(cert)
	if err != nil {
		return Leaf{}, fmt.Errorf("certificate: %w", err)
	}
	owner, err := parseSigner(key)
	if err != nil {
		return Leaf{}, fmt.Errorf("key: %w", err)
	}
	return Leaf{From: parsed.NotBefore, Ends: parsed.NotAfter, Matches: owns(owner, parsed)}, nil
}
