package keys

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Reissue makes a certificate like an old one, for the same key and the same
// names, with other addresses and a new lifetime. All texts are PEM; authority
// is the CA that the server's clients trust. Since the key stays, one file
// replaces one file, and no reader ever sees a certificate beside the key of
// another one.
func Reissue(old, key, authority, authorityKey string, addresses []netip.Addr, life time.Duration, now time.Time) (string, error) {
	template, err := parseCertificate(old)
	if err != nil {
		return "", fmt.Errorf("present certificate: %w", err)
	}
	signerOf, err := parseSigner(key)
	if err != nil {
		return "", fmt.Errorf("its key: %w", err)
	}
	parent, err := parseCertificate(authority)
	if err != nil {
		return "", fmt.Errorf("certificate of the authority: %w", err)
	}
	parentKey, err := parseSigner(authorityKey)
	if err != nil {
		return "", fmt.Errorf("key of the authority: %w", err)
	}
	fresh, err := alike(template, now.Add(life), parent)
	if err != nil {
		return "", err
	}
	fresh.NotBefore, fresh.IPAddresses = now.Add(-backdate).UTC(), nil
	for _, a := range addresses {
		fresh.IPAddresses = append(fresh.IPAddresses, net.IP(a.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, fresh, parent, signerOf.Public(), parentKey)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return encodePEM("CERTIFICATE", der), nil
}

// alike returns a template with the names and usages of a certificate, from the
// beginning of its authority to an end that the authority reaches.
func alike(old *x509.Certificate, end time.Time, authority *x509.Certificate) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), RawSubject: old.RawSubject,
		KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage, BasicConstraintsValid: old.BasicConstraintsValid,
		DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, EmailAddresses: old.EmailAddresses, URIs: old.URIs,
		NotBefore: authority.NotBefore.UTC(), NotAfter: earlier(end, authority.NotAfter),
	}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b.UTC()
	}
	return a.UTC()
}

// Addresses returns the addresses in a PEM certificate, in its order.
func Addresses(cert string) ([]netip.Addr, error) {
	parsed, err := parseCertificate(cert)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, ip := range parsed.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	return out, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// parseSigner reads a key in any of the forms that the tools of Kubernetes
// write.
func parseSigner(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is of an unknown kind")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("cannot sign")
	}
	return signer, nil
}
