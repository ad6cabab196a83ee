package vrrp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// A host of these rigs has eth0 in 10.98.0.0/24 and eth1 in 10.99.0.0/24. Both
// are on one switch, like the only switch of a shop. The API's VIP is in the
// first network and the ingress VIP in the second.

func farAddress(n int) string { return fmt.Sprintf("10.99.0.1%d/24", n) }

// saying returns a node with the report of its agent.
func saying(i int, addresses ...string) state.Node {
	n := nodeOf(i)
	report := state.VIPReport{}
	for _, a := range addresses {
		report.Addresses = append(report.Addresses, netip.MustParsePrefix(a))
	}
	n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(report)}
	return n
}

// twoNetworks gives each host its second NIC, and puts both networks into its
// view.
func (r *rig) twoNetworks(without ...int) {
	r.t.Helper()
	var list []state.Node
	for _, h := range r.hosts {
		netnstest.Plug(r.t, r.sw, fmt.Sprint("q", h.n), h.ns, "eth1")
		own := []string{fmt.Sprintf("10.98.0.1%d/24", h.n), farAddress(h.n)}
		list = append(list, saying(h.n, own...))
		if len(without) == 0 || without[0] != h.n {
			netnstest.Give(r.t, h.ns, "eth1", farAddress(h.n))
		}
	}
	r.tellAll(func(v *state.NetworkView) {
		v.Nodes = state.Known(list)
		v.Settings.APIVIPs, v.Settings.IngressVIPs = []netip.Addr{vip4}, []netip.Addr{far}
		v.Settings.MachineNetworks = []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("10.99.0.0/24")}
	})
}

// onlyOn fails the test if an address is on another NIC; lo is none.
func (h *testHost) onlyOn(nic string, vip netip.Addr) {
	h.r.t.Helper()
	for line := range strings.Lines(h.run("ip", "-o", "address", "show")) {
		if strings.Contains(line, vip.String()+"/") && !strings.Contains(line, ": "+nic) && !strings.Contains(line, ": lo ") {
			h.r.t.Errorf("%s has %s elsewhere: %s", h.name, vip, line)
		}
	}
}

func TestAHostThatLosesItsAddressInTheNetworkOfAVIPGivesTheVIPUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.twoNetworks()
	r.start(vip4, far)
	h := r.holder(far)
	h.onlyOn("eth1", far)
	h.run("ip", "address", "del", farAddress(h.n), "dev", "eth1")
	o := r.others(h)[0]
	r.eventually("the other host holds it", 3*time.Second, func() bool { return o.has(far) && !h.has(far) })
	r.never("it came back", 5*time.Second, func() bool { return h.has(far) || !o.has(far) })
	o.onlyOn("eth1", far)
	r.oneHolder(vip4, far)
}

func TestAHostWithoutAnAddressInTheNetworkOfAVIPLeavesItToTheOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.twoNetworks(2) // the host with the higher address
	for _, h := range r.hosts {
		h.startAgent()
		h.startDaemon()
	}
	r.eventually("the other host holds it", 8*time.Second, func() bool { return r.hosts[0].has(far) })
	r.never("it moved", 10*time.Second, func() bool { return r.hosts[1].has(far) || !r.hosts[0].has(far) })
	r.eventually("the API's VIP is held", 5*time.Second, func() bool { return len(r.holders(vip4)) == 1 })
}

// One worker is in the network of the API's VIP, and one in that of the ingress
// VIP, each with a router. Both once held the ingress VIP permanently.
func TestAHostOutsideTheNetworkOfAVIPNeverHoldsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	near, away := nodeOf(1), nodeOf(2)
	near.Labels, away.Labels = nil, nil
	near.Addresses, away.Addresses = near.Addresses[:1], []netip.Addr{addr("10.99.0.12")}
	r.hosts[1].run("ip", "address", "flush", "dev", "eth0")
	netnstest.Give(t, r.hosts[1].ns, "eth0", "10.99.0.12/24")
	r.tellAll(func(v *state.NetworkView) {
		v.Role, v.Nodes = state.RoleWorker, state.Known([]state.Node{near, away})
		v.Settings.APIVIPs, v.Settings.IngressVIPs = []netip.Addr{vip4}, []netip.Addr{far}
		v.Settings.MachineNetworks = []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("10.99.0.0/24")}
	})
	r.hosts[1].tell(func(v *state.NetworkView) { v.Host.Addresses = away.Addresses })
	for _, h := range r.hosts {
		h.startAgent()
	}
	r.hosts[1].startDaemon()
	r.hosts[0].startDaemon() // its configuration lets it hold nothing
	r.eventually("the one that is in its network holds it", 8*time.Second, func() bool { return r.hosts[1].has(far) })
	r.never("the other one too", 5*time.Second, func() bool { return r.hosts[0].has(far) })
}

// Either NIC could answer for either address. Adverts would then arrive on the
// one that keepalived does not listen on.
func TestNeighboursThatAreLearnedAnewAreLearnedRight(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.twoNetworks()
	r.start(vip4, far)
	looks, wrong := 0, 0
	for began := time.Now(); time.Since(began) < 32*time.Second; looks++ {
		if looks%40 == 0 {
			for _, h := range r.hosts {
				h.run("ip", "neighbour", "flush", "dev", "eth0")
			}
		}
		if len(r.holders(vip4)) != 1 {
			wrong++
		}
		time.Sleep(100 * time.Millisecond)
	}
	if wrong > looks/100 {
		t.Errorf("%d of %d looks found not one holder", wrong, looks)
	}
	r.oneHolder(vip4, far)
}

// stateful is firewalld's input chain of a host on which nobody opened
// anything.
const stateful = `table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy drop;
		ct state { established, related } accept
		iifname lo accept
		meta l4proto { icmp, ipv6-icmp } accept
		reject with icmpx admin-prohibited
	}
}`

// The adverts of the holder belong to no connection that a freshly started host
// has opened. The host would receive no advert, and with the higher address
// keep the VIP.
func TestAHostBehindAStatefulFirewallLeavesTheVIPToItsHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for _, h := range r.hosts {
		h.run("nft", stateful)
	}
	first, second := r.hosts[0], r.hosts[1]
	first.startAgent()
	first.startDaemon()
	r.eventually("the first holds both", 8*time.Second, func() bool { return first.has(vip4) && first.has(vip6) })
	time.Sleep(6 * time.Second)
	mark := r.mark()
	second.startAgent()
	second.startDaemon()
	r.eventually("the second takes part", 10*time.Second, func() bool {
		return strings.Contains(second.log("keepalived.log"), "Startup complete") && strings.Contains(second.log("agent.log"), "nothing bars it")
	})
	r.never("a VIP moved", 6*time.Second, func() bool { return r.mark() != mark })
}
