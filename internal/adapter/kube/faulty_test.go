package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is the data that all its API servers serve: nodes, and all their
// events.
type cluster struct {
	mu      sync.Mutex
	nodes   []string
	events  []string // the event at index i has version i+1
	changed chan struct{}
}

func newCluster(nodes ...string) *cluster {
	c := &cluster{changed: make(chan struct{})}
	for _, n := range nodes {
		c.add(n)
	}
	return c
}

func nodeObject(name string, version int) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"%d"}}`, name, version)
}

func (c *cluster) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, name)
	c.events = append(c.events, `{"type":"ADDED","object":`+nodeObject(name, len(c.events)+1)+`}`)
	close(c.changed)
	c.changed = make(chan struct{})
}

// now returns the nodes, and the events after a version.
func (c *cluster) now(after int) (nodes, events []string, version int, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes), slices.Clone(c.events[min(after, len(c.events)):]), len(c.events), c.changed
}

// fault is an API server's behaviour once the fault strikes.
type fault struct {
	// answer replaces the answer to each request; nil gives a good one.
	answer func(w http.ResponseWriter, r *http.Request)
	// last is the last line of open watches before they end.
	last string
	// mute leaves watches open but silent.
	mute bool
	// cut makes open connections swallow everything.
	cut bool
	// dial replaces new connections, if the server accepts none any more.
	dial func(ctx context.Context) error
	// moved leads new connections to the other server.
	moved bool
}

// Faults of the server that is asked first.
const (
	saysNothing      = "accepts requests and says nothing" // its etcd is gone, it answers the pings of HTTP/2
	halfAListIsTold  = "stops in the middle of a list"
	hostIsGone       = "its host is gone"
	addressHasMoved  = "its address has moved to the other"
	refusesToConnect = "refuses connections"
	answers500       = "answers 500"
	answers503       = "answers 503"
	answers429       = "answers 429"
	answers403       = "answers 403"
	forgotInAnAnswer = "has forgotten and says so in an answer"
	forgotInAWatch   = "has forgotten and says so in a watch"
)

var faults = map[string]fault{
	saysNothing:      {mute: true, answer: hang},
	halfAListIsTold:  {mute: true, answer: halfAList},
	hostIsGone:       {cut: true, dial: unanswering},
	addressHasMoved:  {cut: true, moved: true},
	refusesToConnect: {dial: refusing},
	answers500:       {answer: status(500, "InternalError")},
	answers503:       {answer: status(503, "ServiceUnavailable")},
	answers429:       {answer: status(429, "TooManyRequests")},
	answers403:       {answer: status(403, "Forbidden")},
	forgotInAnAnswer: {answer: forgotten},
	forgotInAWatch:   {answer: forgotten, last: gone},
}

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func halfAList(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"ADDED","object":`+nodeObject("a", 1)+"}\n")
	w.(http.Flusher).Flush()
	hang(w, r)
}

func status(code int, reason string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"a fault"}`, reason, code)
	}
}

// forgotten refuses to continue after a version, but lists.
func forgotten(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("resourceVersion") != "" {
		status(http.StatusGone, "Expired")(w, r)
		return
	}
	w.Header().Set("X-Good", "true")
}

func unanswering(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(dialTimeout): // as the host's dialer does
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
}

func refusing(context.Context) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// node is a host with an API server, in a network in memory.
type node struct {
	cluster *cluster
	conns   chan net.Conn
	struck  chan struct{} // closed when the fault strikes
	fault   fault

	mu    sync.Mutex
	lists int // number of requests for a whole list
	open  []net.Conn
}

func (n *node) Accept() (net.Conn, error) {
	c, ok := <-n.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (n *node) Close() error   { return nil }
func (n *node) Addr() net.Addr { return &net.TCPAddr{} }

func (n *node) broken() bool {
	select {
	case <-n.struck:
		return true
	default:
		return false
	}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.broken() && n.fault.answer != nil {
		if n.fault.answer(w, r); w.Header().Get("X-Good") == "" {
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	initial, watch := r.FormValue("sendInitialEvents") == "true", r.FormValue("watch") != ""
	if initial || !watch {
		n.mu.Lock()
		n.lists++
		n.mu.Unlock()
	}
	nodes, _, version, _ := n.cluster.now(0)
	if !watch {
		_, _ = fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, version)
		for i, name := range nodes {
			_, _ = io.WriteString(w, []string{"", ","}[min(i, 1)]+nodeObject(name, version))
		}
		_, _ = io.WriteString(w, "]}")
		return
	}
	n.watch(w, r, initial)
}

// watch serves a good watch, until the fault strikes.
func (n *node) watch(w http.ResponseWriter, r *http.Request, initial bool) {
	nodes, _, after, _ := n.cluster.now(0)
	if initial {
		for _, name := range nodes {
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", nodeObject(name, after))
		}
		_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}}`+"\n", after, endOfList)
	} else if v, err := strconv.Atoi(r.FormValue("resourceVersion")); err == nil {
		after = v
	}
	struck := n.struck
	if n.broken() {
		struck = nil // the answers that are good stay good to the end
	}
	for {
		_, events, version, changed := n.cluster.now(after)
		for _, e := range events {
			_, _ = io.WriteString(w, e+"\n")
		}
		after = version
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			if struck != nil && n.broken() {
				n.end(w, r)
				return
			}
		case <-struck:
			n.end(w, r)
			return
		case <-time.After(time.Minute):
			_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", after)
		}
	}
}

// end decides how an open watch goes on when the fault strikes.
func (n *node) end(w http.ResponseWriter, r *http.Request) {
	if n.fault.mute || n.fault.cut {
		hang(w, r)
	}
	if n.fault.last != "" {
		_, _ = io.WriteString(w, n.fault.last+"\n")
	}
}

// rig has two API servers of a cluster; the first one has a fault.
type rig struct {
	cluster     *cluster
	first, next *node
	servers     *Servers
}

// newRig must be called within a bubble of synctest, with a pair that was made
// outside.
func newRig(t *testing.T, f fault, pair []tls.Certificate) *rig {
	t.Helper()
	r := &rig{cluster: newCluster("a", "b")}
	r.first, r.next = r.node(t, f, pair), r.node(t, fault{}, pair)
	r.servers = servers(t, "https://first:6443", "https://next:6443")
	conf := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://x","insecure-skip-tls-verify":true}}],
"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(r.servers.Kubeconfig, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	r.servers.dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		to := r.first
		if address == "next:6443" || r.first.fault.moved && r.first.broken() {
			to = r.next
		}
		if to.fault.dial != nil && to.broken() {
			return nil, to.fault.dial(ctx)
		}
		return to.connect(), nil
	}
	return r
}

func (r *rig) node(t *testing.T, f fault, pair []tls.Certificate) *node {
	n := &node{cluster: r.cluster, conns: make(chan net.Conn), struck: make(chan struct{}), fault: f}
	server := &http.Server{Handler: n, TLSConfig: &tls.Config{Certificates: pair}, ErrorLog: nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(n, "", "")
	}()
	t.Cleanup(func() {
		close(n.conns)
		_ = server.Close()
		n.mu.Lock()
		for _, c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		<-done
	})
	return n
}

// connect passes a connection to the server, until it is cut.
func (n *node) connect() net.Conn {
	client, near := net.Pipe()
	far, server := net.Pipe()
	n.mu.Lock()
	n.open = append(n.open, client, near, far, server)
	n.mu.Unlock()
	var cut <-chan struct{}
	if n.fault.cut {
		cut = n.struck
	}
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			pass(way[0], way[1], cut)
			_ = way[0].Close()
			_ = way[1].Close()
		}()
	}
	n.conns <- server
	return client
}

// pairOfServers returns a certificate and its key, for clients that do not
// verify it.
func pairOfServers(t *testing.T) []tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates
}
