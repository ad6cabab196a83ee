package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
)

// ServingLifetime is the lifetime of the configuration server's certificate, where the site
// has no shorter one. The server makes its own at every start.
const ServingLifetime = 30 * 24 * time.Hour

// ServingLife returns the life of the configuration server's certificate in a site.
func ServingLife(s *site.Site) time.Duration {
	return config.ShorterLife(ServingLifetime, s.Config.CertificateLife())
}

// Serving makes a certificate of the configuration server for one host, valid
// for the API's names, the VIPs and the host's own addresses.
func Serving(s *site.Site, own []netip.Addr, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("configuration server key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.APIName()},
		DNSNames:    []string{s.APIName(), s.ExternalAPIName()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotAfter:    now.Add(ServingLife(s)),
	}
	addresses := append(append([]netip.Addr{}, s.Config.APIVIPs()...), own...)
	if rendezvous, named := s.RendezvousIP(); named {
		addresses = append(addresses, rendezvous)
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, a.AsSlice())
	}
	der, err := sign(s.Identity.ConfigCA, template, key, now)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("configuration server certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("configuration server certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
