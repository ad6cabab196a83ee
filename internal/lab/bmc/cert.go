package bmc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// certificateLife is the validity of a certificate, as long as that of those
// that vendors ship.
const certificateLife = 10 * 365 * 24 * time.Hour

// NewCertificate makes a self-signed certificate for the hosts, which are names
// or IP addresses. It is valid from an hour before now. It can sign nothing but
// itself, so trust in it covers this controller only.
func NewCertificate(name string, hosts []string, now time.Time) (tls.Certificate, error) {
	return newCertificate(name, hosts, now.Add(-time.Hour), now.Add(certificateLife))
}

func newCertificate(name string, hosts []string, from, to time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate the key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate the serial number of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name, Organization: []string{manufacturer}},
		NotBefore:             from,
		NotAfter:              to,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	addHosts(template, hosts)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// KeptCertificate returns the certificate in a file, or makes one and stores it
// there.
func KeptCertificate(path, name string, hosts []string, now time.Time) (tls.Certificate, error) {
	if data, err := os.ReadFile(path); err == nil {
		if kept, err := tls.X509KeyPair(data, data); err == nil {
			return kept, nil
		}
	}
	made, err := NewCertificate(name, withLocal(name, hosts), now)
	if err != nil {
		return made, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return made, fmt.Errorf("keep the certificate of %s: %w", name, err)
	}
	text := append(certificatePEM(made), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := host.WriteFileAtomic(path, text, 0o600); err != nil {
		return made, fmt.Errorf("keep the certificate of %s: %w", name, err)
	}
	return made, nil
}

// withLocal returns the names of a controller, with those on its own machine.
func withLocal(name string, hosts []string) []string {
	return append([]string{name, "localhost", "127.0.0.1", "::1"}, hosts...)
}

func addHosts(template *x509.Certificate, hosts []string) {
	for _, h := range hosts {
		if addr, err := netip.ParseAddr(h); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
			continue
		}
		template.DNSNames = append(template.DNSNames, h)
	}
}

// faultyCertificate makes the certificate of a quirk; without a fault it
// returns the good one.
func faultyCertificate(fault, name string, hosts []string, good tls.Certificate, now time.Time) (tls.Certificate, error) {
	const day = 24 * time.Hour
	switch fault {
	case CertificateExpired:
		return newCertificate(name, hosts, now.Add(-30*day), now.Add(-day))
	case CertificateNotYetValid:
		return newCertificate(name, hosts, now.Add(day), now.Add(30*day))
	case CertificateRenewed:
		return NewCertificate(name, hosts, now)
	case CertificateOtherHost:
		return newCertificate("other.invalid", []string{"other.invalid"}, now.Add(-day), now.Add(30*day))
	default:
		return good, nil
	}
}

// certificatePEM returns the public part of a certificate.
func certificatePEM(c tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}
