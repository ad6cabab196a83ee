package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Servers is the API of one cluster at several addresses, each of which may be
// down: its virtual IPs, and the API servers themselves.
type Servers struct {
	// Kubeconfig, Name and Limit have the same meaning as in Access. The
	// kubeconfig's server is not used.
	Kubeconfig, Name string
	Limit            Limit
	// Addresses returns the base URLs, https://HOST:PORT, in the order in which to
	// try them.
	Addresses func() []string

	mu      sync.Mutex
	read    time.Time // the time of the kubeconfig from which the clients were made
	clients map[string]*Client
	failed  map[string]time.Time // when an address failed last; removed once it answers

	dial dial // set by tests; nil means the host's network
}

// dial makes a connection.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout is the time that one address gets to answer: one that needs longer is
// no neighbour.
const dialTimeout = 2 * time.Second

// demoted is the time for which an address that failed is asked after the others.
const demoted = 10 * time.Second

// keepAlive detects within seconds that nobody holds the other end of a connection
// any more. When a virtual IP has moved, its new holder answers the first probe
// with a reset.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

// unanswered bounds how long sent data may stay without an acknowledgement, in
// milliseconds. A host that has lost a virtual IP has connections from that address
// to itself, which nobody resets (15 s were lost in the lab).
const unanswered = 4000

// impatient sets that limit on a connection.
func impatient(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unanswered)
	})
	return errors.Join(err, failed)
}

// errNoAddress is returned if there is no server to ask.
var errNoAddress = errors.New("no address of the API is known")

// Try calls do with a server that answers. A refusal counts as an answer, because
// another server would refuse too. If there are several servers, the first one gets
// a quarter of the remaining time: an API server whose etcd is gone does not
// refuse, it hangs. If that server fails, or all have failed lately, Try takes the
// server that first answers a small request; that may be the same one, if it was
// slow because it had just started.
func (s *Servers) Try(ctx context.Context, do func(context.Context, *Client) error) error {
	addresses := s.order(time.Now())
	if len(addresses) == 0 {
		return errNoAddress
	}
	var errs []error
	alone := len(addresses) == 1
	if alone || s.well(addresses[0], time.Now()) {
		answered, err := s.ask(ctx, addresses[0], alone, do)
		if answered || alone || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	quickest, err := s.quickest(ctx, addresses)
	if err == nil {
		var answered bool
		if answered, err = s.ask(ctx, quickest, true, do); answered {
			return err
		}
	}
	return errors.Join(append(errs, err)...)
}

// ask asks one server, for as long as the context lasts or for a quarter of that
// time.
func (s *Servers) ask(ctx context.Context, address string, all bool, do func(context.Context, *Client) error) (answered bool, err error) {
	c, err := s.client(address)
	if err != nil {
		return false, err
	}
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = part(ctx, 4)
		defer cancel()
	}
	err = do(ctx, c)
	answered = err == nil || refused(err)
	s.note(address, answered, time.Now())
	if answered {
		return true, err
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return false, fmt.Errorf("%s: %w", address, err)
}

// part returns a context for one of so many parts of the remaining time, if the
// context is bounded.
func part(ctx context.Context, of time.Duration) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	share := time.Until(end) / of
	return context.WithTimeoutCause(ctx, share, fmt.Errorf("no answer in %s", share.Round(time.Millisecond)))
}

// quickest asks all servers at once for something that no server knows without its
// etcd, and returns the first one that answers, within half of the remaining time.
func (s *Servers) quickest(ctx context.Context, addresses []string) (string, error) {
	ctx, cancel := part(ctx, 2)
	defer cancel() // slower requests need not go on
	type answer struct {
		address string
		err     error
	}
	answers := make(chan answer, len(addresses))
	for _, address := range addresses {
		c, err := s.client(address)
		if err != nil {
			return "", err
		}
		go func() {
			err := c.set.CoreV1().RESTClient().Get().Resource("namespaces").Name(metav1.NamespaceSystem).Do(ctx).Error()
			answers <- answer{address, err}
		}()
	}
	var errs []error
	for range addresses {
		a := <-answers
		if a.err == nil || refused(a.err) {
			return a.address, nil
		}
		s.note(a.address, false, time.Now())
		errs = append(errs, fmt.Errorf("%s: %w", a.address, a.err))
	}
	return "", errors.Join(errs...)
}

// order returns the addresses in the order in which to ask them now: if all have
// failed lately, the one with the oldest failure comes first.
func (s *Servers) order(now time.Time) []string {
	out := slices.Clone(s.Addresses())
	slices.SortStableFunc(out, func(a, b string) int { return s.failedAt(a, now).Compare(s.failedAt(b, now)) })
	return out
}

// well reports whether an address has not failed lately.
func (s *Servers) well(address string, now time.Time) bool { return s.failedAt(address, now).IsZero() }

// failedAt returns when an address failed, or zero if that is long ago.
func (s *Servers) failedAt(address string, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.failed[address]; now.Sub(at) < demoted {
		return at
	}
	return time.Time{}
}

// note records whether an address answered.
func (s *Servers) note(address string, answered bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered {
		delete(s.failed, address)
		return
	}
	if s.failed == nil {
		s.failed = map[string]time.Time{}
	}
	s.failed[address] = now
}

// refused reports whether an error is a server's answer to the request, and not a
// failure of the server itself.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

// client returns the client for one address. It makes the client again when the
// kubeconfig was rewritten, as kubeadm does at the end of an installation.
func (s *Servers) client(address string) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if !info.ModTime().Equal(s.read) || s.clients == nil {
		s.read, s.clients = info.ModTime(), map[string]*Client{}
	}
	if c := s.clients[address]; c != nil {
		return c, nil
	}
	cfg, err := s.at(address)
	if err != nil {
		return nil, err
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	s.clients[address] = c
	return c, nil
}

// at returns the access at one address.
func (s *Servers) at(address string) (*rest.Config, error) {
	cfg, err := Access{Kubeconfig: s.Kubeconfig, Server: address, Name: s.Name, Limit: s.Limit}.Config()
	if err != nil {
		return nil, err
	}
	cfg.Dial = s.connect()
	return cfg, nil
}

// Config returns an access for a library that expects one server: each of its
// connections goes to the first address that accepts one, whatever address the
// library asks for.
func (s *Servers) Config() (*rest.Config, error) {
	addresses := s.Addresses()
	if len(addresses) == 0 {
		return nil, errNoAddress
	}
	cfg, err := s.at(addresses[0])
	if err != nil {
		return nil, err
	}
	cfg.Dial = s.connectAny
	return cfg, nil
}

// connectAny connects to the first address that accepts the connection.
func (s *Servers) connectAny(ctx context.Context, network, _ string) (net.Conn, error) {
	errs := []error{errNoAddress}
	for i, address := range s.order(time.Now()) {
		if i == 0 {
			errs = nil
		}
		at, err := hostPort(address)
		if err != nil {
			return nil, err
		}
		conn, err := s.connect()(ctx, network, at)
		s.note(address, err == nil, time.Now())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// hostPort returns the host and port of a base URL.
func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of the API: %w", err)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}

// connect returns the function that makes connections to one address.
func (s *Servers) connect() dial {
	if s.dial != nil {
		return s.dial
	}
	return (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: impatient}).DialContext
}
