package vrrp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	decide "github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// stranger adds a foreign host.
func (r *rig) stranger(n int, addresses ...string) *testHost {
	r.addHost(n)
	h := r.hosts[len(r.hosts)-1]
	r.hosts = r.hosts[:len(r.hosts)-1]
	in(r.t, h.ns, func() {
		for _, a := range addresses {
			parsed, err := netlink.ParseAddr(a)
			must(r.t, err)
			parsed.Flags = unix.IFA_F_NODAD
			must(r.t, netlink.AddrAdd(link(r.t, "eth0"), parsed))
		}
	})
	return h
}

func TestHardCase17_AVIPThatAStrangerHasIsReportedAndNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	s := r.stranger(9, "10.98.0.5/24")
	for _, h := range r.hosts {
		h.startAgent()
		h.startDaemon()
	}
	r.eventually("the free one is held", 5*time.Second, func() bool { return len(r.holders(vip6)) == 1 })
	r.never("the stranger's was taken", 3*time.Second, func() bool { return len(r.holders(vip4)) > 0 })
	for _, h := range r.hosts {
		if log := h.log("agent.log"); !strings.Contains(log, "VIP 10.98.0.5 is also held by the machine with hardware address") {
			t.Errorf("%s does not report it:\n%s", h.name, log)
		}
	}
	s.run("ip", "address", "del", "10.98.0.5/24", "dev", "eth0")
	r.eventually("the freed one is held", 20*time.Second, func() bool { return len(r.holders(vip4)) == 1 })
}

func TestHardCase17_AStrangerThatTakesAHeldVIPIsReportedAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	mark := r.mark()
	r.stranger(9, "fd98::5/64", "10.98.0.5/24")
	for vip, h := range map[netip.Addr]*testHost{vip4: r.holder(vip4), vip6: r.holder(vip6)} {
		must(t, h.agent.Process.Kill()) // so that it looks now and not only within a minute
		_ = h.agent.Wait()
		h.startAgent()
		r.eventually("reported", 10*time.Second, func() bool {
			return strings.Contains(h.log("agent.log"), "VIP "+vip.String()+" is also held")
		})
	}
	r.never("given up", 2*time.Second, func() bool { return len(r.since(mark, vip4))+len(r.since(mark, vip6)) > 2 }) // the foreign host's own two
}

// The holder's VIP is on its interface before anything starts, as on the first
// host of a cluster. That host must go on with it.
func TestHardCase17_AVIPThatIsThereAtTheStartStaysOnOneHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for _, a := range []string{"10.98.0.5/32", "fd98::5/128"} {
		r.hosts[0].run("ip", "address", "add", a, "dev", "eth0", "nodad")
	}
	r.start(both...)
	r.oneHolder(both...)
}

// advert returns an advert with a priority. The checksum of VRRPv3 over IPv4
// covers addresses too.
func advert(from, to, vip netip.Addr, id, priority byte) []byte {
	b := append([]byte{0x31, id, priority, 1, 0, 20, 0, 0}, vip.AsSlice()...)
	pseudo := append(append(append([]byte{}, from.AsSlice()...), to.AsSlice()...), 0, 112, 0, byte(len(b)))
	var sum uint32
	for _, part := range [][]byte{pseudo, b} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	b[6], b[7] = byte(^sum>>8), byte(^sum)
	return b
}

// spoof sends adverts of the highest priority from a machine to all hosts.
func (h *testHost) spoof(from netip.Addr, id byte, ttl int) {
	t := h.r.t
	in(t, h.ns, func() {
		conn, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "ip4:112", from.String())
		must(t, err)
		defer func() { _ = conn.Close() }()
		raw, err := conn.(*net.IPConn).SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl) }))
		for range 20 {
			for _, target := range h.r.hosts {
				to := nodeOf(target.n).Addresses[0]
				if _, err := conn.WriteTo(advert(from, to, vip4, id, 255), &net.IPAddr{IP: to.AsSlice()}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestHardCase19_AnAdvertOfAStrangerWithTheHighestPriorityChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	mark := r.mark()
	s := r.stranger(9)
	id, _ := decide.RouterIDs("shop")
	s.spoof(addr("10.98.0.19"), id, 255)
	r.never("a VIP moved", time.Second, func() bool { return r.mark() != mark })
	var dropped uint64
	in(t, r.hosts[0].ns, func() {
		n, err := keepalived.DroppedAdverts()
		must(t, err)
		dropped = n
	})
	if dropped < 20 {
		t.Errorf("%d were dropped", dropped)
	}
	// Adverts from a peer's address but from further away must change nothing
	// either.
	s.run("ip", "address", "add", "10.98.0.12/32", "dev", "eth0")
	s.spoof(addr("10.98.0.12"), id, 254)
	r.never("a VIP moved", time.Second, func() bool { return r.mark() != mark })
}

// This shows that the test above proves something: the same adverts from a peer
// do move the VIP.
func TestHardCase19_TheSameAdvertOfAPeerIsListenedTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.holder(vip4)
	o := r.others(h)[0]
	id, _ := decide.RouterIDs("shop")
	mark := r.mark()
	o.spoof(nodeOf(o.n).Addresses[0], id, 255)
	if len(r.since(mark, vip4)) == 0 {
		t.Error("nothing moved")
	}
}

// A worker is a peer for the ingress VIP, and its adverts for the API's must
// not count. keepalived ignores those too, but receiving so many keeps it from
// sending its own (seen with 2.2.7, by root on a worker of a lab).
func TestAWorkersAdvertsForTheAPIsAddressChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.tellAll(func(v *state.NetworkView) {
		v.Settings.IngressVIPs = append(v.Settings.IngressVIPs, ingress4)
		list := slices.Clone(v.Nodes.Value)
		list[2].Labels = map[string]string{"node-role.kubernetes.io/worker": ""}
		v.Nodes = state.Known(list)
	})
	r.start(both...)
	worker := r.hosts[2]
	mark := r.mark()
	id, of := decide.RouterIDs("shop")
	worker.spoof(nodeOf(worker.n).Addresses[0], id, 255)
	if moved := r.since(mark, vip4); len(moved) > 0 {
		t.Errorf("the API's address moved: %+v", moved)
	}
	for _, h := range r.hosts[:2] {
		if dump := h.run("nft", "list", "table", "inet", "holdfast_vrrp"); !strings.Contains(dump, fmt.Sprintf("peers4_%d", of)) {
			t.Errorf("the worker is no peer of %s for the ingress VIP, so nothing was shown:\n%s", h.ns, dump)
		}
	}
}

func TestHardCase21_TheFilterComesBackAfterAFlush(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	for _, flush := range []string{"flush ruleset", "flush table inet holdfast_vrrp", "delete table inet holdfast_vrrp"} {
		h := r.hosts[0]
		h.run("nft", flush)
		r.eventually("it is back", time.Second, func() bool { return strings.Contains(h.run("nft", "list", "ruleset"), "@peers4 counter") })
	}
}

// Another cluster with the same router IDs is on the same network, and a router
// that sends multicast with one of them.
func TestHardCase18_TwoClustersWithOneRouterIDDoNotNoticeEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4)
	id, _ := decide.RouterIDs("shop")
	for _, h := range r.hosts {
		list := state.Known([]state.Node{nodeOf(1), nodeOf(2)})
		if h.n > 2 {
			list = state.Known([]state.Node{nodeOf(3), nodeOf(4)})
		}
		h.tell(func(v *state.NetworkView) {
			v.Nodes, v.Settings.ControlPlanes = list, 2
			if h.n > 2 {
				v.Settings.Cluster, v.Settings.APIVIPs = "other", []netip.Addr{ingress4, ingress6}
				v.Settings.RouterIDs = state.RouterIDs{API: id}
			}
		})
	}
	r.start(vip4, vip6, ingress4, ingress6)
	mark := r.mark()
	noise := r.stranger(9)
	must(t, os.WriteFile(noise.path("noise.conf"), []byte(`vrrp_instance noise {
  state MASTER
  interface eth0
  virtual_router_id `+strconv.Itoa(int(id))+`
  version 3
  priority 254
  advert_int 0.1
  virtual_ipaddress { 10.98.0.77/32 }
}`), 0o600))
	noise.startDaemonWith(noise.path("noise.conf"))
	r.never("a VIP moved", 4*time.Second, func() bool { return r.mark() != mark })
	h := r.holder(vip4)
	must(t, h.agent.Process.Kill()) // so that it listens now and not only within a minute
	_ = h.agent.Wait()
	h.startAgent()
	r.eventually("the other one is reported", 10*time.Second, func() bool {
		return strings.Contains(h.log("agent.log"), "10.98.0.19, which is not a host of this cluster, sends VRRP adverts with our router id "+strconv.Itoa(int(id)))
	})
}

// Five announcements come at once when a host takes over, five more a second
// later, and one every two seconds: a switch that missed one receives another.
func TestB27_ATakenVIPIsAnnouncedAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	s := r.stranger(9)
	h := r.holder(vip4)
	type heard struct {
		frames []decide.Frame
		err    error
	}
	done := make(chan heard, 1)
	go func() {
		var got heard
		in(t, s.ns, func() { _, got.frames, got.err = keepalived.Listen(context.Background(), "eth0", nil, 6*time.Second) })
		done <- got
	}()
	time.Sleep(200 * time.Millisecond)
	h.unplug()
	r.moved(h)
	got := <-done
	must(t, got.err)
	n := map[netip.Addr]int{}
	for _, f := range got.frames {
		n[f.Claims]++
	}
	for _, vip := range both {
		if n[vip] < 11 {
			t.Errorf("%s was announced %d times", vip, n[vip])
		}
	}
}
