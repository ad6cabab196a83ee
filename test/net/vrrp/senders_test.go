package vrrp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// hardware returns the hardware address of a host's NIC.
func (h *testHost) hardware() string {
	var out string
	in(h.r.t, h.ns, func() { out = link(h.r.t, "eth0").Attrs().HardwareAddr.String() })
	return out
}

// knownByNICs gives every host the report of each host's NIC.
func (r *rig) knownByNICs() {
	r.t.Helper()
	var list []state.Node
	for _, h := range r.hosts {
		n := nodeOf(h.n)
		report := state.VIPReport{Hardware: map[netip.Addr][]string{}}
		for i, a := range n.Addresses {
			report.Addresses = append(report.Addresses, netip.PrefixFrom(a, []int{24, 64}[i]))
			report.Hardware[a] = []string{h.hardware()}
		}
		n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(report)}
		list = append(list, n)
	}
	r.tellAll(func(v *state.NetworkView) { v.Nodes = state.Known(list) })
}

// A host has a VIP but neither keepalived nor agent, so nobody sends adverts
// for it.
func TestAVIPThatAHostLeftBehindIsTakenByAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.knownByNICs()
	r.hosts[1].run("ip", "address", "add", "10.98.0.5/32", "dev", "eth0")
	h := r.hosts[0]
	h.startAgent()
	h.startDaemon()
	r.eventually("it is taken", 8*time.Second, func() bool { return h.has(vip4) && h.has(vip6) })
	if log := h.log("agent.log"); !strings.Contains(log, "VIP 10.98.0.5 is also answered for by h2") {
		t.Errorf("it is not told:\n%s", log)
	}
}

// If hosts do not report their NICs, the same adverts move the VIP
// (TestHardCase19_TheSameAdvertOfAPeerIsListenedTo).
func TestAnAdvertInAPeersNameFromAnotherNICChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.knownByNICs()
	r.start(both...)
	h := r.holder(vip4)
	peer := nodeOf(r.others(h)[0].n).Addresses[0]
	s := r.stranger(9)
	// It takes the peer's address but answers for it to nobody: it only sends
	// adverts.
	s.run("ip", "address", "flush", "dev", "eth0")
	s.run("ip", "address", "add", peer.String()+"/32", "dev", "eth0")
	s.run("ip", "link", "set", "eth0", "arp", "off")
	for _, to := range r.hosts {
		s.run("ip", "route", "replace", nodeOf(to.n).Addresses[0].String()+"/32", "dev", "eth0")
		s.run("ip", "neighbour", "replace", nodeOf(to.n).Addresses[0].String(), "lladdr", to.hardware(), "dev", "eth0", "nud", "permanent")
	}
	mark := r.mark()
	id, _ := decide.RouterIDs("shop")
	must(t, h.agent.Process.Kill()) // so that it listens now and not only within a minute
	_ = h.agent.Wait()
	h.startAgent()
	for range 4 {
		s.spoofTo(h, peer, id)
	}
	if moved := r.since(mark, vip4); len(moved) > 0 {
		t.Errorf("it moved: %+v", moved)
	}
	if dump := h.run("nft", "list", "table", "inet", "holdfast_vrrp"); !strings.Contains(dump, "@pairs4") {
		t.Errorf("nothing is compared:\n%s", dump)
	}
	r.eventually("it is told", 10*time.Second, func() bool {
		return strings.Contains(h.log("agent.log"), "in the name of "+peer.String()+" from hardware address "+s.hardware())
	})
}

// If a host's NIC was replaced while it could not report that, its adverts
// count: two holders would be worse than anything that a foreign host can do.
func TestAPeerWithANICThatItCouldNotTellOfIsHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.knownByNICs()
	r.start(both...)
	h := r.holder(vip4)
	o := r.others(h)[0]
	o.run("ip", "link", "set", "eth0", "address", fmt.Sprintf("02:00:00:00:77:0%d", o.n))
	time.Sleep(time.Second)
	mark := r.mark()
	h.tell(func(v *state.NetworkView) { v.Balancer, v.LocalAPI = state.Fact[state.Balancer]{}, state.Known(false) })
	r.eventually("the other takes over", 5*time.Second, func() bool { return o.has(vip4) && !h.has(vip4) })
	r.never("both have it", 3*time.Second, func() bool { return h.has(vip4) })
	if d := r.overlapSince(mark, vip4, h.n); d > time.Second {
		t.Errorf("it was on two hosts for %s", d)
	}
}

// spoofTo sends adverts of the highest priority to a host in a peer's name for
// a second.
func (h *testHost) spoofTo(to *testHost, from netip.Addr, id byte) {
	hosts := h.r.hosts
	h.r.hosts = []*testHost{to}
	h.spoof(from, id, 255)
	h.r.hosts = hosts
}
