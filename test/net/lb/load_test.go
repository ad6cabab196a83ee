package lb

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// clientPatience is a client's timeout: longer than any of the times under
// test.
const clientPatience = 8 * time.Second

// ask makes one request over its own connection and returns the name of the
// server that answered.
func (s *site) ask(from *namespace, to netip.AddrPort) (string, error) {
	conn, err := from.dial(to, clientPatience)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(clientPatience))
	secure := tls.Client(conn, &tls.Config{RootCAs: s.ca.pool, ServerName: apilb.VerifyName})
	if _, err := io.WriteString(secure, "GET / HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// api returns the address of the API behind a VIP.
func api(vip netip.Addr) netip.AddrPort { return netip.AddrPortFrom(vip, apilb.ServerPort) }

// result is the result of one request.
type result struct {
	at   time.Time // start of the request
	took time.Duration
	who  string
	err  error
}

// load makes requests at a steady rate, each over a new connection.
type load struct {
	mu      sync.Mutex
	results []result
	stop    func()
}

// start starts a load with the given number of requests per second.
func (s *site) start(from *namespace, to netip.AddrPort, perSecond int) *load {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &load{}
	var all sync.WaitGroup
	l.stop = func() { cancel(); all.Wait() }
	s.t.Cleanup(l.stop)
	all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all.Go(func() {
					r := result{at: time.Now()}
					r.who, r.err = s.ask(from, to)
					r.took = time.Since(r.at)
					l.mu.Lock()
					l.results = append(l.results, r)
					l.mu.Unlock()
				})
			}
		}
	})
	return l
}

// since returns the results of the requests made since a time.
func (l *load) since(t time.Time) []result {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []result
	for _, r := range l.results {
		if !r.at.Before(t) {
			out = append(out, r)
		}
	}
	return out
}

// slow is the longest time of a request without a problem.
const slow = 500 * time.Millisecond

// loss is the loss that a client noticed in a fault.
type loss struct {
	requests, failed, slow int
	// until is the time from the fault to the last request that failed or was
	// slow, lastFailed the time to the last one that failed.
	until, lastFailed time.Duration
}

func (l loss) String() string {
	return fmt.Sprintf("%d of %d requests failed, %d were slow, the last %v after the fault",
		l.failed, l.requests, l.slow, l.until.Round(time.Millisecond))
}

func (l *load) loss(fault time.Time) loss { return l.between(fault, time.Now()) }

// between returns the loss among requests made between two moments.
func (l *load) between(fault, end time.Time) loss {
	var out loss
	for _, r := range l.since(fault) {
		if r.at.After(end) {
			continue
		}
		out.requests++
		switch {
		case r.err != nil:
			out.failed++
			out.lastFailed = max(out.lastFailed, r.at.Sub(fault))
		case r.took > slow:
			out.slow++
		default:
			continue
		}
		out.until = max(out.until, r.at.Sub(fault))
	}
	return out
}

// who counts the answers of each server.
func who(results []result) map[string]int {
	out := map[string]int{}
	for _, r := range results {
		if r.err == nil {
			out[r.who]++
		}
	}
	return out
}

// lastTo returns the time from a fault to the last request that a server got.
func (l *load) lastTo(server string, fault time.Time) time.Duration {
	var last time.Duration
	for _, r := range l.since(fault) {
		if r.who == server {
			last = max(last, r.at.Sub(fault))
		}
	}
	return last
}

// watch is one endless answer.
type watch struct {
	conn  net.Conn
	from  string
	lines atomic.Int64
	ended atomic.Bool
}

// watch starts a watch, and follows it.
func (s *site) watch(from *namespace, to netip.AddrPort) *watch {
	s.t.Helper()
	conn, err := from.dial(to, clientPatience)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	secure := tls.Client(conn, &tls.Config{RootCAs: s.ca.pool, ServerName: apilb.VerifyName})
	if _, err := io.WriteString(secure, "GET /watch HTTP/1.1\r\nHost: api\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	first, err := lines.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	w := &watch{conn: conn, from: strings.TrimSpace(first)}
	go func() {
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				w.ended.Store(true)
				_ = response.Body.Close()
				return
			}
			w.lines.Add(1)
		}
	}()
	return w
}

// watchOf starts watches until a certain server serves one.
func (s *site) watchOf(from *namespace, to netip.AddrPort, server string) *watch {
	s.t.Helper()
	for range 20 {
		if w := s.watch(from, to); w.from == server {
			return w
		}
	}
	s.t.Fatalf("no watch is served by %s", server)
	return nil
}

// moves reports whether a watch receives something within a second.
func (w *watch) moves(t *testing.T) bool {
	t.Helper()
	before := w.lines.Load()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if w.lines.Load() > before {
			return true
		}
	}
	return false
}
