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

// Reissue makes a certificate like an old one, as Renew does, for other addresses.
// Since the key stays, one file replaces one file, and no reader ever sees a
// certificate beside the key of another one.
func Reissue(old, key, bundle, authorityKey string, addresses []netip.Addr, life time.Duration, now time.Time) (string, error) {
	return remake(old, key, bundle, authorityKey, now.Add(life), func(c *x509.Certificate) {
		c.IPAddresses = nil
		for _, a := range addresses {
			c.IPAddresses = append(c.IPAddresses, net.IP(a.AsSlice()))
		}
	})
}

// remake signs a certificate like an old one for the same key, with another end and a
// change. All texts are PEM.
func remake(old, key, bundle, authorityKey string, end time.Time, change func(*x509.Certificate)) (string, error) {
	template, err := parseCertificate(old)
	if err != nil {
		return "", fmt.Errorf("present certificate: %w", err)
	}
	owner, err := parseSigner(key)
	if err != nil {
		return "", fmt.Errorf("its key: %w", err)
	}
	parent, parentKey, err := signing(bundle, authorityKey)
	if err != nil {
		return "", err
	}
	fresh, err := alike(template, end, parent)
	if err != nil {
		return "", err
	}
	change(fresh)
	der, err := x509.CreateCertificate(rand.Reader, fresh, parent, owner.Public(), parentKey)
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
