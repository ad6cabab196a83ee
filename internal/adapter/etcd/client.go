// Package etcd is the adapter of the etcd on this host: what it says, the few
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

// Config says where the local etcd answers. The zero value is kubeadm's etcd on
// an IPv4 host, but for PeerURL, which has to be given.
type Config struct {
	// ClientURL is etcd's on a loopback address; empty: https://127.0.0.1:2379.
	ClientURL string
	// PeerURL is the local member's, with the node's address. etcd answers there
	// also while it waits for a leader, and as a learner.
	PeerURL string
	// MetricsURL answers then too; empty: port 2381 beside ClientURL.
	MetricsURL string
	// Identity is what clients show; empty: kubeadm's health check's.
	Identity Identity
}

// Identity names the PEM files of a client of etcd. They are read again for
// each new connection.
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

// Client talks to the local etcd. It is safe for concurrent use, connects when
// it is first asked, and survives restarts of etcd.
type Client struct {
	cfg  Config
	conn *grpc.ClientConn
	http *http.Client
}

// reconnect tries often: the etcd is on this host, its restart takes 0.4 s, and
// each wait would be added to it.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.1, MaxDelay: 200 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

// Open returns a client. It reaches nothing yet.
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

// plainClient speaks HTTP to the peer's and the metrics' port, each time over a
// new connection: both are asked only while etcd waits for a leader.
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
