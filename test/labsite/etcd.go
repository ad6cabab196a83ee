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
