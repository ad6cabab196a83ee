package kube

import (
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/rest"
)

// TLS returns the configuration for a connection to an API server outside of
// client-go. It uses the access of a kubeconfig, and verifies that the server's
// certificate has this name. It reads the kubeconfig each time, since
// certificates change.
func TLS(kubeconfig, name string) (*tls.Config, error) {
	cfg, err := Access{Kubeconfig: kubeconfig, Name: name}.Config()
	if err != nil {
		return nil, err
	}
	if cfg.Insecure || cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.ExecProvider != nil {
		return nil, fmt.Errorf("kubeconfig %s: a client certificate and a verified server are needed", kubeconfig)
	}
	cfg.NextProtos = []string{"http/1.1"}
	out, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if out == nil {
		return nil, fmt.Errorf("kubeconfig %s: it names no authority", kubeconfig)
	}
	return out, nil
}
