package infrastructure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// answerLimit bounds one request to a VIP.
const answerLimit = 2 * time.Second

// The ports at which VIPs answer.
const (
	apiPort     = 6443
	ingressPort = 443
)

// Prober asks VIPs as a client of the cluster does.
type Prober struct {
	// Roots returns the authorities of the cluster's API, for each question anew: they
	// change while the operator runs. Nil means those of the system.
	Roots func() (*x509.CertPool, error)
	// apiPort and ingressPort replace the ports above if they are not 0.
	apiPort, ingressPort uint16
}

// RootsOf returns what reads the authorities of an access. Those of a pod lie in a file, which
// kubelet renews. client-go follows it in its own connections alone.
func RootsOf(cfg *rest.Config) func() (*x509.CertPool, error) {
	return func() (*x509.CertPool, error) {
		access, err := rest.TLSConfigFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("authorities of the API: %w", err)
		}
		if access == nil {
			return nil, nil // those of the system
		}
		return access.RootCAs, nil
	}
}

// Ask asks all VIPs at once and returns why each does not answer, empty if it
// does. At an API VIP an API server must show a certificate for that very
// address. At an ingress VIP a host must answer, if only by refusing: whether a
// router listens there does not concern the VIP.
func (a Prober) Ask(ctx context.Context, api, ingress []netip.Addr) map[netip.Addr]string {
	var mu sync.Mutex
	out := map[netip.Addr]string{}
	var all sync.WaitGroup
	one := func(vip netip.Addr, ask func(context.Context, netip.Addr) error) {
		all.Go(func() {
			ctx, stop := context.WithTimeout(ctx, answerLimit)
			defer stop()
			why := ""
			if err := ask(ctx, vip); err != nil {
				why = brief(err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[vip] = why
		})
	}
	for _, vip := range api {
		one(vip, a.api)
	}
	for _, vip := range ingress {
		one(vip, a.ingress)
	}
	all.Wait()
	return out
}

func (a Prober) api(ctx context.Context, vip netip.Addr) error {
	config := &tls.Config{ServerName: vip.String(), MinVersion: tls.VersionTLS12}
	if a.Roots != nil {
		roots, err := a.Roots()
		if err != nil {
			return err
		}
		config.RootCAs = roots
	}
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(vip, cmp.Or(a.apiPort, apiPort)).String())
	if err != nil {
		return err
	}
	return conn.Close()
}

func (a Prober) ingress(ctx context.Context, vip netip.Addr) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(vip, cmp.Or(a.ingressPort, ingressPort)).String())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// brief describes an error without what changes from one try to the next, such as
// the port of this end: so it is reported only when something else is wrong.
func brief(err error) string {
	if named, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate there is not for %s", named.Host)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		if timeout, ok := errors.AsType[net.Error](op.Err); ok && timeout.Timeout() {
			return "no answer in time"
		}
		if no, ok := errors.AsType[syscall.Errno](op.Err); ok {
			return no.Error()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}
