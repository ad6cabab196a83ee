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

// Servers is the API of one cluster at several addresses, any of which may be
// down: its virtual IPs, and the API servers themselves.
type Servers struct {
	// Kubeconfig, Name and Limit are as those of an Access. The kubeconfig's server
	// is not used.
	Kubeconfig, Name string
	Limit            Limit
	// Addresses returns the base URLs, https://HOST:PORT, in the order in which
	// they are to be tried.
	Addresses func() []string

	mu      sync.Mutex
	read    time.Time // of the kubeconfig that the clients were made from
	clients map[string]*Client
	failed  map[string]time.Time // when an address last did, until it answers

	dial dial // of tests; nil for the host's network
}

// dial makes a connection.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout is how long one address may take to answer: what has none in
// this time is no neighbour.
const dialTimeout = 2 * time.Second

// demoted is how long an address that failed is asked after the others.
const demoted = 10 * time.Second

// keepAlive notices within seconds that nobody holds a connection's other end
// any more. When a virtual IP has moved, its new holder answers the first
// probe with a reset.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

// unanswered is how long what was sent may go without an acknowledgement, in
// milliseconds. A host that has lost a virtual IP has connections from that
// address to itself: nobody resets those (15 s were lost in the lab).
const unanswered = 4000

// impatient gives a connection that limit.
func impatient(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unanswered)
	})
	return errors.Join(err, failed)
}

// errNoAddress says that there is nobody to ask.
var errNoAddress = errors.New("no address of the API is known")

// Try does something with a server that answers. An answer that refuses is an
// answer: another server would refuse too. Where there are several, the one that
// is asked first has a quarter of the time that is left: an API server whose etcd
// is gone does not refuse, it hangs. Where that one fails, or all failed lately,
// the one that answers something small first is asked: it may be the same one,
// which was slow as it began to serve.
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

// ask asks one server, for as long as the context lasts or for its share.
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

// part is a context for one of so many parts of the time that is left, if it is
// bounded.
func part(ctx context.Context, of time.Duration) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	share := time.Until(end) / of
	return context.WithTimeoutCause(ctx, share, fmt.Errorf("no answer in %s", share.Round(time.Millisecond)))
}

// quickest asks all servers at once for what no server knows without its etcd,
// and returns the first that answers, in half of the time that is left.
func (s *Servers) quickest(ctx context.Context, addresses []string) (string, error) {
	ctx, cancel := part(ctx, 2)
	defer cancel() // who is late need not go on
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

// order returns the addresses in the order in which they are asked now: where all
// failed lately, the one whose failure is longest ago comes first.
func (s *Servers) order(now time.Time) []string {
	out := slices.Clone(s.Addresses())
	slices.SortStableFunc(out, func(a, b string) int { return s.failedAt(a, now).Compare(s.failedAt(b, now)) })
	return out
}

// well reports whether an address has not failed lately.
func (s *Servers) well(address string, now time.Time) bool { return s.failedAt(address, now).IsZero() }

// failedAt is when an address failed, zero where that is long ago.
func (s *Servers) failedAt(address string, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.failed[address]; now.Sub(at) < demoted {
		return at
	}
	return time.Time{}
}

// note remembers whether an address answered.
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

// refused reports whether an error is a server's answer to what was asked, and
// not a word of trouble of its own.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

// client returns the client of one address. It is made anew when the
// kubeconfig was written anew, as kubeadm does at the end of an installation.
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

// at is the access at one address.
func (s *Servers) at(address string) (*rest.Config, error) {
	cfg, err := Access{Kubeconfig: s.Kubeconfig, Server: address, Name: s.Name, Limit: s.Limit}.Config()
	if err != nil {
		return nil, err
	}
	cfg.Dial = s.connect()
	return cfg, nil
}

// Config is for a library that wants one server: each of its connections goes to
// the first address that takes one, whichever it asks for.
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

// connectAny connects to the first address that takes the connection.
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

// hostPort is where a base URL leads.
func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of the API: %w", err)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}

// connect is how connections to one address are made.
func (s *Servers) connect() dial {
	if s.dial != nil {
		return s.dial
	}
	return (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: impatient}).DialContext
}
