package takeover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

const (
	// retryEvery is the pause between two attempts at an etcd that is starting.
	retryEvery = 20 * time.Millisecond
	// askTimeout bounds one request to an etcd on the same host.
	askTimeout = time.Second
	// largestAnswer bounds the part of an answer that is read, in bytes.
	largestAnswer = 1 << 20
)

// info returns the identity in the form of etcd's own packages.
func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA}
}

// config returns the client side of the identity; nil without one.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	cfg, err := t.info().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the TLS identity of %s: %w", t.Cert, err)
	}
	return cfg, nil
}

// survivor asks the survivor's etcd at its peer URL. Unlike the client API,
// that URL is served without a quorum and before the first election.
type survivor struct {
	base   string
	client *http.Client
}

func newSurvivor(req Request) (*survivor, error) {
	cfg, err := req.TLS.config()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(req.PeerURL)
	if err != nil {
		return nil, fmt.Errorf("read peerURL: %w", err)
	}
	// No proxy: the survivor is this very host.
	tr := &http.Transport{TLSClientConfig: cfg, TLSHandshakeTimeout: askTimeout}
	return &survivor{base: u.Scheme + "://" + u.Host, client: &http.Client{Transport: tr, Timeout: askTimeout}}, nil
}

func (s *survivor) close() { s.client.CloseIdleConnections() }

// wait asks until there is an answer, because etcd may just be starting. A
// rejected identity ends it at once.
func (s *survivor) wait(ctx context.Context) (View, error) {
	for {
		view, err := s.ask(ctx)
		if err == nil {
			return view, nil
		}
		if identityFailed(err) {
			return view, refuse(TLSIdentity, err.Error())
		}
		if !pause(ctx, retryEvery) {
			return view, unreachable(err, s.base)
		}
	}
}

// unreachable explains an etcd that never answered. If it ends connections
// right after the handshake, it rejects the names in our certificate.
func unreachable(err error, base string) error {
	if errors.Is(err, io.EOF) && base[:5] == "https" {
		return refuse(TLSIdentity, fmt.Sprintf("etcd closes the connection: check that the certificate holds this host's address (%v)", err))
	}
	return &stop{Unfinished, Unreachable, err.Error()}
}

func (s *survivor) ask(ctx context.Context) (View, error) {
	var view View
	header, err := s.get(ctx, "/members", &view.Members)
	if err != nil {
		return view, err
	}
	if err := view.Cluster.UnmarshalText([]byte(header.Get("X-Etcd-Cluster-ID"))); err != nil {
		return view, fmt.Errorf("read the cluster id of %s: %w", s.base, err)
	}
	var version struct{ Etcdserver string }
	if _, err := s.get(ctx, "/version", &version); err != nil {
		return view, err
	}
	view.Version = version.Etcdserver
	return view, nil
}

// get reads one JSON document of the peer endpoint.
func (s *survivor) get(ctx context.Context, path string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", s.base, err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the survivor's etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s%s: %s", s.base, path, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, largestAnswer)).Decode(into); err != nil {
		return nil, fmt.Errorf("read %s%s: %w", s.base, path, err)
	}
	return resp.Header, nil
}

// identityFailed reports whether one side rejected the other's certificate. No
// waiting helps then.
func identityFailed(err error) bool {
	var (
		unknown  x509.UnknownAuthorityError
		host     x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		alert    tls.AlertError
		noTLS    tls.RecordHeaderError
		opaque   *net.OpError
		isRemote = errors.As(err, &opaque) && opaque.Op == "remote error"
	)
	return isRemote || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &verify) || errors.As(err, &alert) || errors.As(err, &noTLS)
}

// pause waits, and reports false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
