package sshdtest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Line passes connections on to a server.
type Line struct {
	Address string
	to      string
	far     time.Duration

	// up leads to the server.
	up, down    way
	silent      atomic.Bool
	connections atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// way is one direction.
type way struct {
	// moved counts the bytes that entered; all connections break once it is above the limit.
	moved, limit atomic.Int64
	// under counts those that have not arrived yet, and most has its greatest value.
	under, most atomic.Int64
}

// unlimited is more than any test sends.
const unlimited = 1 << 62

// NewLine makes a line to a server, which ends with the test. Each byte takes the time far in
// each direction.
func NewLine(t testing.TB, to string, far time.Duration) *Line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	must(t, err)
	out := &Line{Address: l.Addr().String(), to: to, far: far}
	out.up.limit.Store(unlimited)
	out.down.limit.Store(unlimited)
	t.Cleanup(func() { _ = l.Close(); out.Cut() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			out.connections.Add(1)
			out.join(near)
		}
	}()
	return out
}

// join connects one client.
func (l *Line) join(near net.Conn) {
	server, err := net.DialTimeout("tcp", l.to, 10*time.Second) //nolint:noctx // it has a limit
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	l.conns = append(l.conns, near, server)
	l.mu.Unlock()
	go l.pass(server, near, &l.up)
	go l.pass(near, server, &l.down)
}

// parcel is what arrives at a time.
type parcel struct {
	at   time.Time
	data []byte
}

// pass passes one direction on. Whoever ends it ends both directions.
func (l *Line) pass(to, from net.Conn, w *way) {
	parcels := make(chan parcel, 1<<12)
	defer close(parcels)
	go l.deliver(to, from, w, parcels)
	buf := make([]byte, 1<<15)
	for {
		n, err := from.Read(buf)
		if w.moved.Add(int64(n)) > w.limit.Load() {
			l.Cut()
			return
		}
		under := w.under.Add(int64(n))
		for most := w.most.Load(); under > most && !w.most.CompareAndSwap(most, under); most = w.most.Load() {
		}
		parcels <- parcel{time.Now().Add(l.far), bytes.Clone(buf[:n])}
		if err != nil {
			return
		}
	}
}

// deliver delivers each parcel at its time.
func (l *Line) deliver(to, from net.Conn, w *way, parcels <-chan parcel) {
	for p := range parcels {
		time.Sleep(time.Until(p.at)) //nolint:forbidigo // a line is as long as it is
		w.under.Add(-int64(len(p.data)))
		if l.silent.Load() {
			continue
		}
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close()
		}
	}
	_ = to.Close()
}

// CutAfter breaks all connections as soon as so many more bytes have gone to the server.
func (l *Line) CutAfter(n int64) { l.up.limit.Store(l.up.moved.Load() + n) }

// CutAfterBack breaks all connections as soon as so many more bytes have come back.
func (l *Line) CutAfterBack(n int64) { l.down.limit.Store(l.down.moved.Load() + n) }

// Mend passes everything on again.
func (l *Line) Mend() {
	l.up.limit.Store(unlimited)
	l.down.limit.Store(unlimited)
	l.silent.Store(false)
}

// Silence passes nothing on any more, and breaks nothing.
func (l *Line) Silence() { l.silent.Store(true) }

// Most returns how many bytes were on their way to the server, and back, at once.
func (l *Line) Most() (up, down int64) { return l.up.most.Load(), l.down.most.Load() }

// Connections returns how many clients have come.
func (l *Line) Connections() int64 { return l.connections.Load() }

// Cut breaks all connections.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
