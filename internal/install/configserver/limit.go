package configserver

import (
	"net"
	"net/netip"
	"sync"
)

// Limit accepts at most each connections at a time from one address, and closes
// the others at once. So one machine cannot take the place that another one
// needs. Several hosts may share an address, behind a router that translates
// addresses.
func Limit(l net.Listener, each int) net.Listener {
	return &limited{Listener: l, each: each, open: map[netip.Addr]int{}}
}

type limited struct {
	net.Listener
	each int

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept returns the next connection from an address that is below its limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := source(c)
		if l.enter(from) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		_ = c.Close()
	}
}

func (l *limited) enter(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[a] >= l.each {
		return false
	}
	l.open[a]++
	return true
}

func (l *limited) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[a]--; l.open[a] == 0 {
		delete(l.open, a)
	}
}

// source returns a connection's other end. All ends without an address share
// one limit.
func source(c net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
