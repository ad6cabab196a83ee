package lb

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/net/promise"
)

// pid returns the process that does the work.
func (n *node) pid() int {
	info, err := n.client.Info(n.t.Context())
	if err != nil {
		return 0
	}
	return info.PID
}

// names returns the servers of the running haproxy.
func (n *node) names() string {
	servers, err := n.client.Servers(n.t.Context())
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, s := range servers {
		if s.Admin == apilb.AdminReady {
			out = append(out, apilb.NodeOf(s.Name))
		}
	}
	return strings.Join(out, " ")
}

// H8: a deleted node must stop being a backend; upstream it could stay forever.
// Target: one second each way.
func TestH8_ANodeThatComesOrGoesIsBalancedWithinASecond(t *testing.T) {
	s := newSite(t, onlyV4, 3)
	for _, h := range s.hosts {
		h.knows(nodes(s.hosts[:2]...))
		h.startAgent()
		h.startHaproxy()
	}
	h := s.hosts[0]
	within(t, 5*time.Second, "balances over two", func() bool { return h.live() == 2 })
	before := h.pid()
	h.knows(nodes(s.hosts...))
	within(t, time.Second, "a new node takes requests", func() bool { return h.live() == 3 })
	h.knows(nodes(s.hosts[:2]...))
	within(t, time.Second, "a deleted node is gone", func() bool { return h.names() == "cp-1 cp-2" })
	// A changed address is another server: the new one comes first.
	moved := nodes(s.hosts[:2]...)
	moved[1].Addresses = s.hosts[2].addresses
	h.knows(moved)
	within(t, time.Second, "a node's new address takes requests", func() bool {
		servers, _ := h.client.Servers(t.Context())
		for _, sv := range servers {
			if sv.Name == "cp-2:10.97.0.13" && sv.Health == apilb.HealthReady {
				return true
			}
		}
		return false
	})
	if h.pid() != before {
		t.Error("haproxy was reloaded")
	}
}

// idleWatches opens connections that stay open.
func (s *site) idleWatches(from *namespace, to netip.AddrPort, number int) []net.Conn {
	s.t.Helper()
	conns := make([]net.Conn, number)
	var all sync.WaitGroup
	gate := make(chan struct{}, 32)
	for i := range conns {
		all.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			c, err := from.dial(to, clientPatience)
			if err != nil {
				s.t.Errorf("watch %d: %v", i, err)
				return
			}
			_, _ = c.Write([]byte{idle})
			conns[i] = c
		})
	}
	all.Wait()
	s.t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	return conns
}

// alive counts the connections that still echo.
func alive(conns []net.Conn) int {
	n := 0
	for _, c := range conns {
		if c == nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		buf := make([]byte, 1)
		if _, err := c.Read(buf); err != nil { // the first byte came back long ago
			continue
		}
		if _, err := c.Write(buf); err == nil {
			n++
		}
	}
	return n
}

// The hard case says ten thousand. A process may have twenty thousand files
// here, and each watch uses two of them.
func TestHardCase26_IdleWatchesSurviveChangesOfTheBackends(t *testing.T) {
	const watches = 4000
	s := newSite(t, onlyV4, 3)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	conns := s.idleWatches(s.client, api(s.vips[0]), watches)
	before := h.pid()
	for range 5 {
		h.knows(nodes(s.hosts[:2]...))
		within(t, time.Second, "removed", func() bool { return h.names() == "cp-1 cp-2" })
		h.knows(nodes(s.hosts...))
		within(t, time.Second, "added", func() bool { return len(strings.Fields(h.names())) == 3 && h.live() == 3 })
	}
	if got := alive(conns); got != watches {
		t.Errorf("%d of %d watches live", got, watches)
	}
	if h.pid() != before {
		t.Error("haproxy was reloaded")
	}
}

func TestHardCase27_FiftyChangesInTenSecondsNeedNoReload(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	l := s.start(s.client, api(s.vips[0]), 40)
	start, before := time.Now(), h.pid()
	for i := range 50 {
		list := nodes(s.hosts...)
		if i%2 == 0 {
			list = append(list, state.Node{
				Name: fmt.Sprintf("cp-%d", 10+i), Labels: map[string]string{state.LabelControlPlane: ""},
				Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.97.0.%d", 100+i))},
			})
		}
		h.knows(list)
		time.Sleep(200 * time.Millisecond)
	}
	h.knows(nodes(s.hosts...))
	within(t, time.Second, "the last change is made", func() bool { return h.names() == "cp-1 cp-2" })
	l.stop()
	if h.pid() != before {
		t.Error("haproxy was reloaded")
	}
	if got := l.loss(start); got.failed > 0 {
		t.Error(got)
	}
}

// The hard case says forty thousand; see hard case 26.
func TestHardCase28_SilentAndHalfClosedClientsCostTheAPIServersNothing(t *testing.T) {
	const clients = 4000
	s := newSite(t, onlyV4, 2)
	s.up()
	s.hold(s.hosts[0])
	vip := api(s.vips[0])
	accepted := s.hosts[0].api.accepted.Load() + s.hosts[1].api.accepted.Load()
	start := time.Now()
	var silent []net.Conn
	for range clients {
		c, err := s.client.dial(vip, clientPatience)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		silent = append(silent, c)
	}
	t.Logf("%d silent clients after %v", clients, time.Since(start).Round(time.Millisecond))
	l := s.start(s.client, vip, 20)
	began := time.Now()
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Fatal("a client that says nothing is kept")
		}
	}
	l.stop()
	took := time.Since(start)
	if took > promise.Allowed(15*time.Second) {
		t.Errorf("silent clients were kept for %v", took)
	}
	if got := l.loss(began); got.failed > 0 {
		t.Error("others were disturbed:", got)
	}
	// Besides the load there were only haproxy's own checks and the probes.
	extra := s.hosts[0].api.accepted.Load() + s.hosts[1].api.accepted.Load() - accepted - int64(len(l.since(start)))
	if extra > int64(took/time.Second)*10+50 {
		t.Errorf("API servers saw %d further connections", extra)
	}

	// Half closed: the server has sent everything, the client never closes.
	half := s.idleWatches(s.client, vip, 200)
	s.hosts[0].api.stop()
	s.hosts[1].api.stop()
	within(t, 4*time.Second, "connections of dead servers are given up", func() bool {
		servers, err := s.hosts[0].client.Servers(t.Context())
		n := 0
		for _, sv := range servers {
			n += sv.Sessions
		}
		return err == nil && n == 0
	})
	_ = half
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error) //nolint:errorlint // as the connection returned it
	return ok && t.Timeout()
}
