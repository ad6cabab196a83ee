package bmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	// headerTimeout bounds the time in which a client sends its header.
	headerTimeout = 10 * time.Second
	// backlog is the number of connections that may wait to be accepted.
	backlog = 128
	// acceptPause is the wait after a failed accept. The failure lasts until
	// the quirk "unreachable" changes.
	acceptPause = 20 * time.Millisecond
)

// Serve answers on a TCP listener over HTTPS until the context ends, then
// closes the listener and the server. It returns nil if the context ended it.
// A server can serve on several listeners at once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	gate := &gate{Listener: ln, server: s, done: ctx.Done(), conns: map[*heldConn]struct{}{}}
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          quiet(),
		// Controllers speak HTTP/1.1 only.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go gate.follow()
	stop := context.AfterFunc(ctx, func() {
		gate.drop(every)
		_ = srv.Close() // the listener's error comes back from Serve
	})
	defer stop()
	err := srv.Serve(tls.NewListener(gate, s.TLSConfig()))
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		s.Close()
		return nil
	}
	return fmt.Errorf("controller of %s on %s: %w", s.cfg.Name, ln.Addr(), err)
}

// gate is a listener with the faults of the quirks half-open and unreachable.
type gate struct {
	net.Listener
	server *Server
	done   <-chan struct{}

	mu     sync.Mutex
	closed bool // the socket does not listen
	conns  map[*heldConn]struct{}
}

// Accept returns the next connection to serve. It keeps half-open ones and
// never serves them.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			if g.retry() {
				continue
			}
			return nil, err
		}
		switch q := g.server.Quirks(); {
		case q.Unreachable:
			_ = conn.Close()
		case q.HalfOpen:
			g.hold(conn, true)
			// The quirk may have ended before the connection was remembered.
			if !g.server.Quirks().HalfOpen {
				g.drop(unserved)
			}
		default:
			return g.hold(conn, false), nil
		}
	}
}

// retry waits a moment after a failed accept. It reports whether the quirk
// caused the failure, so that the socket will listen again.
func (g *gate) retry() bool {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	return pause(g.done, acceptPause) && (closed || g.listens())
}

func (g *gate) listens() bool {
	return g.control(func(fd int) error {
		listening, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		if err == nil && listening == 0 {
			err = syscall.EINVAL
		}
		return err
	}) == nil
}

// hold remembers a connection until it is closed.
func (g *gate) hold(conn net.Conn, silent bool) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := &heldConn{Conn: conn, gate: g, silent: silent}
	g.conns[held] = struct{}{}
	return held
}

type heldConn struct {
	net.Conn
	gate   *gate
	silent bool // accepted while half-open, never served
}

func (c *heldConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// follow makes the socket follow the quirks until the server ends.
func (g *gate) follow() {
	was := Quirks{}
	for {
		q, changed := g.server.quirksAndChange()
		if q.Unreachable != was.Unreachable {
			g.listen(!q.Unreachable)
		}
		// A client that comes right after the end of half-open is served: only those
		// that came before lose their connection.
		switch {
		case q.Unreachable:
			g.drop(every)
		case was.HalfOpen && !q.HalfOpen:
			g.drop(unserved)
		}
		was = q
		select {
		case <-g.done:
			return
		case <-changed:
		}
	}
}

func every(*heldConn) bool      { return true }
func unserved(c *heldConn) bool { return c.silent }

// drop closes the connections that which names.
func (g *gate) drop(which func(*heldConn) bool) {
	g.mu.Lock()
	var closing []*heldConn
	for c := range g.conns {
		if which(c) {
			closing = append(closing, c)
		}
	}
	g.mu.Unlock()
	for _, c := range closing {
		_ = c.Close()
	}
}

// listen opens and closes the socket to connections without giving up its
// address. On Linux a listening socket that is shut down refuses connections
// and can listen again, in the network namespace in which it was made.
func (g *gate) listen(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.control(func(fd int) error {
		if open {
			return syscall.Listen(fd, backlog)
		}
		return syscall.Shutdown(fd, syscall.SHUT_RD)
	})
	g.closed = !open
	if err != nil {
		g.server.log.Error("cannot follow the quirk unreachable", "error", err)
	}
}

func (g *gate) control(f func(fd int) error) error {
	socket, ok := g.Listener.(syscall.Conn)
	if !ok {
		return fmt.Errorf("listener %T has no socket", g.Listener)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}
