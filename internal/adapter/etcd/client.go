// Package etcd is the adapter of the etcd on this host: its answers, the few
// changes that the two-node protocol makes, its data while it is down, and the
// stand-in that votes for a fenced peer.
package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Config holds the addresses of the local etcd. The zero value means kubeadm's
// etcd on an IPv4 host, except that PeerURL must be set.
type Config struct {
	// ClientURL is etcd's URL on a loopback address; empty:
	// https://127.0.0.1:2379.
	ClientURL string
	// PeerURL is the URL of the local member at the node's address. etcd
	// answers there even as a learner, and while it waits for a leader.
	PeerURL string
	// MetricsURL answers in those cases too; empty: port 2381 beside ClientURL.
	MetricsURL string
	// Identity is the client certificate; empty: that of kubeadm's health
	// check.
	Identity Identity
}

// Identity names the PEM files of a client of etcd. Each new connection reads
// them again.
type Identity struct{ CA, Cert, Key string }

func (c Config) complete() Config {
	const pki = state.EtcdPKIDir + "/"
	if c.ClientURL == "" {
		c.ClientURL = "https://127.0.0.1:2379"
	}
	if u, err := url.Parse(c.ClientURL); err == nil && c.MetricsURL == "" {
		c.MetricsURL = "http://" + net.JoinHostPort(u.Hostname(), "2381")
	}
	if c.Identity == (Identity{}) {
		c.Identity = Identity{CA: pki + "ca.crt", Cert: pki + "healthcheck-client.crt", Key: pki + "healthcheck-client.key"}
	}
	return c
}

// Client talks to the local etcd. It is safe for concurrent use, connects at
// its first request, and survives restarts of etcd.
type Client struct {
	cfg  Config
	conn *grpc.ClientConn
	http *http.Client
}

// reconnect retries often: the etcd is on this host, its restart takes 0.4 s,
// and every wait adds to that.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.1, MaxDelay: 200 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

// Open returns a client. It does not connect yet.
func Open(cfg Config) (*Client, error) {
	cfg = cfg.complete()
	u, err := url.Parse(cfg.ClientURL)
	if err != nil || u.Scheme != "https" || u.Port() == "" {
		return nil, fmt.Errorf("client of etcd: %q is no URL like https://127.0.0.1:2379", cfg.ClientURL)
	}
	conn, err := grpc.NewClient("passthrough:///"+u.Host, grpc.WithTransportCredentials(files{id: cfg.Identity}),
		grpc.WithConnectParams(reconnect), grpc.WithNoProxy(), grpc.WithIdleTimeout(0))
	if err != nil {
		return nil, fmt.Errorf("client of etcd at %s: %w", cfg.ClientURL, err)
	}
	return &Client{cfg: cfg, conn: conn, http: plainClient(cfg.Identity)}, nil
}

// plainClient returns an HTTP client for the peer port and the metrics port. It
// opens a new connection each time: both are asked only while etcd waits for a
// leader.
func plainClient(id Identity) *http.Client {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		cfg, err := id.Config()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, addr)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: dial}}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
