package labsite

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/model/state"
)

// LetIntoEtcd opens etcd on each control plane for the lab's clients, which are no control
// plane and come from the gateways. The setting lasts as long as the host's disk.
func (s *Site) LetIntoEtcd(ctx context.Context) error {
	var errs []error
	for _, h := range s.ControlPlanes() {
		for _, gateway := range s.Lab.Layout.Machine.Gateways {
			_, err := s.Sh(ctx, h, "grep -qsx "+gateway.String()+" "+state.FirewallAlsoPath+" || echo "+gateway.String()+" >>"+state.FirewallAlsoPath)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// EtcdKeys returns the keys of a client of etcd, from the first control plane that runs.
func (s *Site) EtcdKeys(ctx context.Context) (*tls.Config, error) {
	var errs []error
	for _, h := range s.ControlPlanes() {
		config, err := s.etcdKeys(ctx, h)
		if err == nil {
			return config, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// LiveEtcdKeys are the keys of a client of etcd that takes them anew with each connection: certificates are
// renewed and authorities replaced while it writes.
func (s *Site) LiveEtcdKeys(ctx context.Context) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			keys, err := s.EtcdKeys(ctx)
			if err != nil {
				return nil, err
			}
			return &keys.Certificates[0], nil
		},
		InsecureSkipVerify: true, // VerifyConnection does it, by the authorities of that moment
		VerifyConnection: func(c tls.ConnectionState) error {
			keys, err := s.EtcdKeys(ctx)
			if err != nil {
				return err
			}
			_, err = c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: keys.RootCAs})
			return err
		},
	}
}

func (s *Site) etcdKeys(ctx context.Context, host string) (*tls.Config, error) {
	root, err := s.Lab.Root(ctx, s.Power, host)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "etc/kubernetes/pki/etcd")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "healthcheck-client.crt"), filepath.Join(dir, "healthcheck-client.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt")) // #nosec G304 -- of a host of the lab
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in ca.crt of %s", host)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
