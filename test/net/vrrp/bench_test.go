package vrrp

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// only selects faults by a part of their names.
var only = flag.String("faults", "", "measure only the faults whose name contains this, of several separated by commas")

// chosen reports whether a fault is selected.
func (f fault) chosen() bool {
	return slices.ContainsFunc(strings.Split(*only, ","), func(part string) bool { return strings.Contains(f.name, part) })
}

// buried waits until no process of a killed daemon is left. Otherwise the next
// daemon would complain that one is already running.
func (h *testHost) buried() {
	child := h.pid(render.VRRPPIDFile)
	for began := time.Now(); child > 1 && syscall.Kill(child, 0) == nil && time.Since(began) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
}

// stopDaemon stops keepalived cleanly and waits for its end.
func (h *testHost) stopDaemon() {
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.daemon.Wait() }()
	for {
		_ = h.daemon.Process.Signal(syscall.SIGTERM) // one that is just starting may ignore it
		select {
		case <-ended:
			return
		case <-time.After(3 * time.Second):
		}
	}
}

// moves is the number of measurements of each move of a VIP: go test -args
// -moves 20.
var moves = flag.Int("moves", 0, "measure each move of a VIP so often, beside keepalived with the upstream values")

// upstream is keepalived.conf with the values of docs/facts/network.md#weights:
// adverts each second, checks by programs every 2 s, no agent beside it.
const upstream = `global_defs {
  enable_script_security
  script_user root
  max_auto_priority -1
  vrrp_garp_master_refresh 60
}
vrrp_script lb {
  script "/usr/bin/timeout 1.9 /usr/bin/test -e %[1]s/lb"
  interval 2
  weight 20
  rise 3
  fall 3
}
vrrp_script both {
  script "/usr/bin/timeout 1.9 /usr/bin/test -e %[1]s/lb -o -e %[1]s/api"
  interval 2
  weight 5
  rise 3
  fall 3
}
`

const upstreamInstance = `vrrp_instance shop_API_%d {
  state BACKUP
  interface eth0
  virtual_router_id %d
  priority 40
  advert_int 1
  unicast_src_ip %s
  unicast_peer {
    %s
  }
  authentication {
    auth_type PASS
    auth_pass shop_api_vip
  }
  virtual_ipaddress {
    %s
  }
  track_script {
    lb
    both
  }
}
`

// startUpstream starts keepalived on all hosts with the upstream values.
func (r *rig) startUpstream() {
	id, _ := decide.RouterIDs("shop")
	for _, h := range r.hosts {
		for _, name := range []string{"lb", "api"} {
			must(r.t, os.WriteFile(h.path(name), nil, 0o600))
		}
		conf := fmt.Sprintf(upstream, h.root)
		for i, vip := range both {
			var peers []string
			for _, o := range r.others(h) {
				peers = append(peers, nodeOf(o.n).Addresses[i].String())
			}
			conf += fmt.Sprintf(upstreamInstance, i, id, nodeOf(h.n).Addresses[i], strings.Join(peers, "\n    "), netip.PrefixFrom(vip, vip.BitLen()))
		}
		must(r.t, os.WriteFile(h.path("upstream.conf"), []byte(conf), 0o600))
		h.startDaemonWith(h.path("upstream.conf"))
	}
	r.eventually("a holder", 20*time.Second, func() bool { return len(r.holders(vip4)) == 1 && len(r.holders(vip6)) == 1 })
	time.Sleep(8 * time.Second) // three successful checks
	r.settle(both...)
}

// system is one way of holding VIPs that is measured.
type system struct {
	name   string
	r      *rig
	again  func(h *testHost) // starts the daemon again
	sick   func(h *testHost) // removes haproxy from a host
	heal   func(h *testHost)
	client *testHost
}

// fault is a fault of the host that holds the VIPs.
type fault struct {
	name        string
	happen, end func(s system, h *testHost)
}

var faults = []fault{
	{"host lost", func(_ system, h *testHost) { h.unplug() }, func(_ system, h *testHost) { h.plug() }},
	{"link down", func(s system, h *testHost) { in(s.r.t, s.r.sw, func() { must(s.r.t, linkDown(h.port)) }) }, func(s system, h *testHost) {
		in(s.r.t, s.r.sw, func() { must(s.r.t, linkUp(h.port)) })
		h.addressAgain()
	}},
	{"keepalived killed", func(_ system, h *testHost) { h.killDaemon() }, func(s system, h *testHost) { _ = h.daemon.Wait(); h.buried(); s.again(h) }},
	{"graceful stop", func(_ system, h *testHost) { _ = h.daemon.Process.Signal(syscall.SIGTERM) }, func(s system, h *testHost) { h.stopDaemon(); s.again(h) }},
	{"haproxy gone", func(s system, h *testHost) { s.sick(h) }, func(s system, h *testHost) { s.heal(h) }},
}

// addressAgain gives a host its IPv6 address again, which Linux removes when
// the link goes down.
func (h *testHost) addressAgain() {
	_ = h.command("ip.log", nil, "ip", "address", "replace", fmt.Sprintf("fd98::1%d/64", h.n), "dev", "eth0", "nodad").Wait()
}

// measured is the effect of one fault: the time without an answer for clients
// of each family, the time until the VIPs were elsewhere, and the time during
// which two hosts had one.
type measured struct{ gap4, gap6, moved, two time.Duration }

// measure makes a fault happen to the holder, and undoes it.
func (s system) measure(f fault) measured {
	s.together()
	h := s.r.holder(vip4)
	mark := s.r.mark()
	p4, p6 := s.client.ping(vip4), s.client.ping(vip6)
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	f.happen(s, h)
	s.r.movedWithin(h, 30*time.Second) // the usual configuration needs longer than ours may
	m := measured{moved: time.Since(began)}
	time.Sleep(1500 * time.Millisecond) // late effects count too
	m.gap4, m.gap6 = p4.longest(), p6.longest()
	for _, vip := range both {
		m.two = max(m.two, s.r.overlapSince(mark, vip, h.n))
	}
	f.end(s, h)
	s.r.eventually("one holder again", 30*time.Second, func() bool { return len(s.r.holders(vip4)) == 1 && len(s.r.holders(vip6)) == 1 })
	s.r.settle(both...)
	return m
}

// together makes one host hold both VIPs, which is the case to measure. It
// stops the others for a moment.
func (s system) together() {
	if s.r.holder(vip4) == s.r.holder(vip6) {
		return
	}
	keep := s.r.holder(vip4)
	for _, h := range s.r.others(keep) {
		h.stopDaemon()
	}
	s.r.eventually("both on one host", 20*time.Second, func() bool { return keep.has(vip4) && keep.has(vip6) })
	for _, h := range s.r.others(keep) {
		s.again(h)
	}
	time.Sleep(8 * time.Second) // three successful checks
}

// pinger pings an address 200 times a second.
type pinger struct {
	mu       sync.Mutex
	sent     []time.Time
	answered []bool
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func (h *testHost) ping(vip netip.Addr) *pinger {
	ctx, stop := context.WithCancel(context.Background())
	p := &pinger{stop: stop}
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if vip.Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	var conn net.PacketConn
	in(h.r.t, h.ns, func() {
		var err error
		conn, err = (&net.ListenConfig{}).ListenPacket(ctx, network, map[bool]string{true: "0.0.0.0", false: "::"}[vip.Is4()])
		must(h.r.t, err)
	})
	to := &net.IPAddr{IP: vip.AsSlice()}
	p.done.Go(func() { p.ask(ctx, conn, to, request) })
	p.done.Go(func() { p.hear(conn, reply) })
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return p
}

func (p *pinger) ask(ctx context.Context, conn net.PacketConn, to net.Addr, kind byte) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		n := len(p.sent)
		p.sent, p.answered = append(p.sent, time.Now()), append(p.answered, false)
		p.mu.Unlock()
		_, _ = conn.WriteTo(echo(kind, n), to)
	}
}

// echo returns an ICMP echo request; the kernel computes the checksum for IPv6.
func echo(kind byte, n int) []byte {
	b := []byte{kind, 0, 0, 0, 0x48, 0x46, 0, 0}
	binary.BigEndian.PutUint16(b[6:], uint16(n))
	sum := uint32(kind)<<8 + 0x4846 + uint32(uint16(n))
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum+sum>>16))
	return b
}

func (p *pinger) hear(conn net.PacketConn, kind byte) {
	b := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		if n >= 8 && b[0] == kind && b[4] == 0x48 && b[5] == 0x46 {
			p.mu.Lock()
			if i := int(binary.BigEndian.Uint16(b[6:])); i < len(p.answered) {
				p.answered[i] = true
			}
			p.mu.Unlock()
		}
	}
}

// longest stops the pings and returns the longest time without an answer.
func (p *pinger) longest() time.Duration {
	p.stop()
	p.done.Wait()
	var gap time.Duration
	var last time.Time
	for i, t := range p.sent {
		if p.answered[i] {
			if !last.IsZero() {
				gap = max(gap, t.Sub(last))
			}
			last = t
		}
	}
	if n := len(p.sent); n > 0 && !last.IsZero() {
		gap = max(gap, p.sent[n-1].Sub(last))
	}
	return gap
}

// TestMoves measures how long a VIP is away in each fault, with Holdfast and
// with keepalived as upstream configures it, at the same time on one machine.
func TestMoves(t *testing.T) {
	if *moves == 0 {
		t.Skip("runs with -args -moves N")
	}
	ours, theirs := newRig(t, 3), newRig(t, 3)
	ours.start(both...)
	theirs.startUpstream()
	systems := []system{
		{
			"holdfast", ours, func(h *testHost) { h.startDaemon() },
			func(h *testHost) { h.tell(func(v *state.NetworkView) { v.Balancer = state.Fact[state.Balancer]{} }) }, func(h *testHost) { h.tell(healthy) }, ours.stranger(9),
		},
		{
			"upstream", theirs, func(h *testHost) { h.startDaemonWith(h.path("upstream.conf")) },
			func(h *testHost) { must(t, os.Remove(h.path("lb"))) }, func(h *testHost) { must(t, os.WriteFile(h.path("lb"), nil, 0o600)) }, theirs.stranger(9),
		},
	}
	for _, f := range faults {
		if !f.chosen() {
			continue
		}
		results := make([][]measured, len(systems))
		for range *moves {
			var all sync.WaitGroup
			for i, s := range systems {
				all.Go(func() { results[i] = append(results[i], s.measure(f)) })
			}
			all.Wait()
			if t.Failed() {
				return
			}
		}
		for _, what := range []struct {
			name string
			of   func(measured) time.Duration
		}{
			{"no answer, IPv4", func(m measured) time.Duration { return m.gap4 }},
			{"no answer, IPv6", func(m measured) time.Duration { return m.gap6 }},
			{"on another host", func(m measured) time.Duration { return m.moved }},
			{"on two hosts", func(m measured) time.Duration { return m.two }},
		} {
			if f.name == "host lost" && what.name == "on two hosts" {
				continue // the lost host still has it, and nobody can reach that host
			}
			a, b := pick(results[0], what.of), pick(results[1], what.of)
			fmt.Printf("%-18s %-16s holdfast %s   upstream %s   ratio %.2f\n", f.name, what.name, spread(a), spread(b), ratio(a, b))
		}
	}
}

func pick(list []measured, of func(measured) time.Duration) []time.Duration {
	var out []time.Duration
	for _, m := range list {
		out = append(out, of(m))
	}
	slices.Sort(out)
	return out
}

// spread returns minimum, median and maximum in seconds.
func spread(l []time.Duration) string {
	return fmt.Sprintf("%.2f/%.2f/%.2f s (n=%d)", l[0].Seconds(), l[len(l)/2].Seconds(), l[len(l)-1].Seconds(), len(l))
}

func ratio(a, b []time.Duration) float64 {
	return a[len(a)/2].Seconds() / max(b[len(b)/2].Seconds(), 0.001)
}
