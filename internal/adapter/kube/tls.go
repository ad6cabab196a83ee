package kube

import (
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/rest"
)

// TLS is how a connection to an API server is made by hand: with the access of a
// kubeconfig, and verified by a name that the server's certificate must say. It
// is read anew each time, since certificates change.
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
