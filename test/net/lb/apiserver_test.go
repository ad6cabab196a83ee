package lb

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// authority is the authority of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return authority{
		cert: cert, key: key, pool: pool,
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
}

// issue makes a certificate for a server of these names.
func (a authority) issue(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// idle is the first byte of a connection without TLS, which is kept open and
// echoed. It represents one of very many watches.
const idle = 'W'

// apiServer answers like an API server, or fails like one.
type apiServer struct {
	name string
	ns   *namespace
	cert tls.Certificate
	// ready is the status of /readyz, delay the delay of its answer.
	ready atomic.Int32
	delay atomic.Int64
	// waits is true while it waits for its etcd: it is not ready, and would be otherwise.
	waits atomic.Bool
	// checks counts the requests for /readyz, accepted all connections.
	checks, accepted atomic.Int64

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	// hung is not nil while the process is frozen; closing it lets the process
	// go on.
	hung chan struct{}
}

func newAPIServer(ns *namespace, name string, cert tls.Certificate) *apiServer {
	a := &apiServer{name: name, ns: ns, cert: cert, open: map[net.Conn]bool{}}
	a.ready.Store(http.StatusOK)
	return a
}

// start starts listening.
func (a *apiServer) start() {
	a.ns.t.Helper()
	l, err := a.ns.listen(apilb.ServerPort)
	if err != nil {
		a.ns.t.Fatal(err)
	}
	a.mu.Lock()
	a.listener = l
	a.mu.Unlock()
	handed := &handed{Listener: l, conns: make(chan net.Conn)}
	server := &http.Server{
		Handler: a, TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.cert}},
		ErrorLog: log.New(io.Discard, "", 0), TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go func() { _ = server.ServeTLS(handed, "", "") }()
	go a.accept(l, handed)
}

// stop acts as a killed process: its sockets are reset.
func (a *apiServer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.listener.Close()
	for c := range a.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	a.open = map[net.Conn]bool{}
}

// hang acts as a frozen process; the kernel still accepts connections.
func (a *apiServer) hang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hung = make(chan struct{})
}

func (a *apiServer) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.hung)
	a.hung = nil
}

// breathe waits while the process is frozen.
func (a *apiServer) breathe() {
	a.mu.Lock()
	hung := a.hung
	a.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

// handed is a listener that gets its connections from another one.
type handed struct {
	net.Listener
	conns chan net.Conn
}

func (h *handed) Accept() (net.Conn, error) {
	c, ok := <-h.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (a *apiServer) accept(l net.Listener, to *handed) {
	var under sync.WaitGroup
	for {
		c, err := l.Accept()
		if err != nil {
			under.Wait()
			close(to.conns)
			return
		}
		a.accepted.Add(1)
		a.mu.Lock()
		a.open[c] = true
		a.mu.Unlock()
		under.Go(func() { a.take(c, to) })
	}
}

// take reads a connection's first byte and serves it accordingly.
func (a *apiServer) take(c net.Conn, to *handed) {
	a.breathe()
	reader := bufio.NewReaderSize(c, 16)
	first, err := reader.Peek(1)
	if err != nil {
		_ = c.Close()
		return
	}
	if first[0] == idle {
		go func() { _, _ = io.Copy(c, reader); _ = c.Close() }()
		return
	}
	to.conns <- &breathing{Conn: c, reader: reader, server: a}
}

// breathing is a connection that freezes with its process.
type breathing struct {
	net.Conn
	reader *bufio.Reader
	server *apiServer
}

func (b *breathing) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	b.server.breathe()
	return n, err
}

func (b *breathing) Write(p []byte) (int, error) {
	b.server.breathe()
	return b.Conn.Write(p)
}

// ServeHTTP answers /readyz, /watch with a line every 50 ms, and everything else
// with the server's name.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/readyz"):
		a.checks.Add(1)
		time.Sleep(time.Duration(a.delay.Load()))
		status := int(a.ready.Load())
		if a.waits.Load() && !slices.Contains(r.URL.Query()["exclude"], "etcd-readiness") {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
	case r.URL.Path == "/watch":
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, a.name+"\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	default:
		_, _ = io.WriteString(w, a.name)
	}
}
