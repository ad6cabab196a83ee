package vrrp

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// nodes makes a list of the first n hosts.
func nodes(n int) state.Fact[[]state.Node] {
	var list []state.Node
	for i := 1; i <= n; i++ {
		list = append(list, nodeOf(i))
	}
	return state.Known(list)
}

// reloads counts the reloads of a host's keepalived.
func (h *testHost) reloads() int { return strings.Count(h.log("keepalived.log"), "Reload complete") }

func TestHardCase13_LookUpsThatFailChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	mark := r.mark()
	for _, n := range []state.Fact[[]state.Node]{{}, {}, {}, state.Known([]state.Node{})} { // failed three times, then empty
		r.tellAll(func(v *state.NetworkView) { v.Nodes = n })
		r.never("a VIP moved", time.Second, func() bool { return r.mark() != mark })
	}
	for _, h := range r.hosts {
		if n := h.reloads(); n != 0 {
			t.Errorf("%s: %d reloads", h.name, n)
		}
	}
}

func TestHardCase14_GrowthFromOneToFiveAndBackNeverLosesTheVIP(t *testing.T) {
	t.Parallel()
	r := newRig(t, 5)
	up := func(h *testHost, n int) {
		h.tell(func(v *state.NetworkView) { v.Nodes, v.Settings.ControlPlanes = nodes(n), n })
		h.startAgent()
		h.startDaemon()
	}
	first := r.hosts[0]
	up(first, 1)
	r.eventually("the first holds both", 5*time.Second, func() bool { return first.has(vip4) && first.has(vip6) })
	r.settle(both...)
	mark := r.mark()
	for _, n := range []int{3, 5} { // the others list a new host before it takes part
		for _, h := range r.hosts[:n] {
			h.tell(func(v *state.NetworkView) { v.Nodes, v.Settings.ControlPlanes = nodes(n), n })
		}
		r.eventually("the first lists them", 3*time.Second, func() bool {
			conf, _ := os.ReadFile(first.path(render.ConfigPath))
			return strings.Contains(string(conf), nodeOf(n).Addresses[0].String())
		})
		for _, h := range r.hosts[n-2 : n] {
			up(h, n)
		}
		r.never("a VIP moved", 3*time.Second, func() bool { return r.mark() != mark })
	}
	for _, n := range []int{4, 3, 2, 1} { // a node is removed: all hosts learn of that
		for _, h := range r.hosts[:n+1] {
			h.tell(func(v *state.NetworkView) { v.Nodes = nodes(n) })
		}
		r.never("a VIP moved", 2*time.Second, func() bool { return r.mark() != mark })
	}
}

func TestB4_AHostThatIsRemovedFromTheClusterNeverTakesTheVIP(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.holder(vip4)
	gone, mark := r.others(h)[0], r.mark()
	left := state.Known([]state.Node{nodeOf(h.n)})
	gone.tell(func(v *state.NetworkView) { v.Nodes = left })
	h.tell(func(v *state.NetworkView) { v.Nodes = left })
	r.never("a VIP moved", 3*time.Second, func() bool { return r.mark() != mark })
}

// The peers change in a reload on the holder, on the others and on all at once.
func TestAReloadMovesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	mark := r.mark()
	for n := 4; n < 9; n++ {
		r.tellAll(func(v *state.NetworkView) { v.Nodes = nodes(n) })
		r.eventually("a reload on all", 5*time.Second, func() bool {
			return r.hosts[0].reloads() == n-3 && r.hosts[1].reloads() == n-3 && r.hosts[2].reloads() == n-3
		})
		r.never("a VIP moved", 1500*time.Millisecond, func() bool { return r.mark() != mark })
	}
}

// Peers that are off, like workers at night, must not delay adverts to the
// other peers: the kernel stores packets that it cannot deliver, and has little
// room for them.
func TestPeersThatAreOffHoldUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	with := nodes(2)
	for i := range 60 {
		off := nodeOf(1)
		off.Name, off.Ready = fmt.Sprint("off", i), false
		off.Addresses = []netip.Addr{addr(fmt.Sprintf("10.98.0.%d", 41+i)), addr(fmt.Sprintf("fd98::%d", 41+i))}
		with.Value = append(with.Value, off)
	}
	r.tellAll(func(v *state.NetworkView) { v.Nodes = with })
	r.start(both...)
	mark := r.mark()
	// The kernel gives a neighbour up after three seconds, and asks for it
	// again.
	r.never("a VIP moved", 8*time.Second, func() bool { return r.mark() != mark })
}

func TestHardCase15_TheAddressMovesToABridge(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.holder(vip4)
	in(t, h.ns, func() {
		const name = "br-very-long-15"
		must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}))
		must(t, netlink.LinkSetUp(link(t, name)))
		for _, a := range []string{"10.98.0.1" + h.name[1:] + "/24", "fd98::1" + h.name[1:] + "/64"} {
			parsed, err := netlink.ParseAddr(a)
			must(t, err)
			must(t, netlink.AddrDel(link(t, "eth0"), parsed))
			parsed.Flags = 0x02 // no duplicate address detection
			must(t, netlink.AddrAdd(link(t, name), parsed))
		}
		must(t, netlink.LinkSetMaster(link(t, "eth0"), link(t, name)))
	})
	r.eventually("the new interface is configured", 2*time.Second, func() bool {
		conf, _ := os.ReadFile(h.path(render.ConfigPath))
		return strings.Contains(string(conf), "interface br-very-long-15")
	})
	time.Sleep(time.Second)
	r.settle(both...)
	r.oneHolder(both...)
	// It takes part again: it must hold the VIPs when the other one is lost.
	r.others(h)[0].unplug()
	r.eventually("held on the bridge", 3*time.Second, func() bool {
		out := h.run("ip", "-brief", "address", "show", "br-very-long-15")
		return strings.Contains(out, vip4.String()+"/32") && strings.Contains(out, vip6.String()+"/128")
	})
}

// The first host brings the cluster up, the others join, the cluster is
// complete: the first host must hold the VIP all the time.
func TestHardCase36_TheBootstrapHandOverLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	first := r.hosts[0]
	first.tell(func(v *state.NetworkView) {
		v.Role, v.Stage, v.Nodes, v.Settings.ControlPlanes = state.RoleBootstrap, state.StageInstalling, state.Fact[[]state.Node]{}, 3
		v.Balancer, v.LocalAPI = state.Fact[state.Balancer]{}, state.Fact[bool]{}
	})
	first.startAgent()
	first.startDaemon()
	r.eventually("the first holds both", 5*time.Second, func() bool { return first.has(vip4) && first.has(vip6) })
	r.settle(both...)
	mark := r.mark()
	first.tell(func(v *state.NetworkView) { v.Nodes, v.Stage = nodes(3), state.StageReady })
	r.eventually("it lists them", 2*time.Second, func() bool { return first.reloads() > 0 })
	for _, h := range r.hosts[1:] {
		h.tell(func(v *state.NetworkView) { v.Stage = state.StageReady })
		h.startAgent()
		h.startDaemon()
	}
	for range 3 { // the API comes and goes meanwhile
		first.tell(noAPI)
		r.never("a VIP moved", time.Second, func() bool { return r.mark() != mark })
		first.tell(healthy)
	}
	r.never("a VIP moved", 2*time.Second, func() bool { return r.mark() != mark })
	r.tellAll(func(v *state.NetworkView) { v.Stage = state.StageInstalled })
	r.never("a VIP moved as the cluster was complete", 3*time.Second, func() bool { return r.mark() != mark })
	first.unplug()
	r.moved(first)
}

// B22: it must take the VIP again after a short failure, or nobody could join.
func TestB22_ABootstrappingHostThatComesBackTakesTheVIPAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.hosts[0].tell(func(v *state.NetworkView) { v.Role, v.Stage = state.RoleBootstrap, state.StageReady })
	r.start(both...)
	if h := r.holder(vip4); h.n != 1 {
		t.Fatalf("h%d holds it", h.n)
	}
	r.hosts[0].unplug()
	r.moved(r.hosts[0])
	r.hosts[0].plug()
	r.eventually("it is back", 2*time.Second, func() bool { return len(r.holders(vip4)) == 1 && r.hosts[0].has(vip4) && r.hosts[0].has(vip6) })
}

// Ingress: three control planes without a router and two workers with one.
func TestHardCase37_TheIngressVIPFollowsTheRouters(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	router := func(healthy, ready, isDefault bool) func(*state.NetworkView) {
		return func(v *state.NetworkView) {
			v.Router = state.Known(state.Router{Healthy: healthy, Ready: ready, Default: isDefault})
		}
	}
	r.tellAll(func(v *state.NetworkView) {
		v.Settings.IngressVIPs = append(v.Settings.IngressVIPs, ingress4, ingress6)
		v.Router = state.Known(state.Router{})
	})
	r.start(both...)
	r.never("held without a router", 2*time.Second, func() bool { return len(r.holders(ingress4)) > 0 })
	a, b, c := r.hosts[0], r.hosts[1], r.hosts[2]
	on := func(h *testHost) func() bool {
		return func() bool { return len(r.holders(ingress4)) == 1 && h.has(ingress4) && h.has(ingress6) }
	}
	a.tell(router(true, true, true))
	r.eventually("held by the one with a router", 2*time.Second, on(a))
	b.tell(router(true, true, true))
	r.never("it moved between equals", 2*time.Second, func() bool { return !on(a)() })
	a.tell(router(true, false, true)) // it drains
	r.eventually("at the one that takes new connections", 2*time.Second, on(b))
	b.tell(router(true, false, true))
	a.tell(router(false, false, false))
	r.never("given up while it serves", 2*time.Second, func() bool { return !on(b)() })
	c.tell(router(true, true, false)) // that of a second controller
	r.never("taken by a second controller", 2*time.Second, func() bool { return !on(b)() })
	b.tell(router(false, false, false))
	r.eventually("at the last router there is", 2*time.Second, on(c))
	c.tell(router(false, false, false))
	r.eventually("held by nobody", time.Second, func() bool { return len(r.holders(ingress4))+len(r.holders(ingress6)) == 0 })
	r.oneHolder(vip4, vip6, ingress4, ingress6)
}

// Only IPv6 fails on the holder: IPv4 must move with it.
func TestB28_FamiliesInSyncMoveTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.tellAll(func(v *state.NetworkView) { v.Settings.SyncFamilies = true })
	r.start(both...)
	h := r.holder(vip4)
	if r.holder(vip6) != h {
		t.Fatal("the families began on different hosts")
	}
	h.run("ip", "address", "del", "fd98::1"+h.name[1:]+"/64", "dev", "eth0")
	o := r.others(h)[0]
	r.eventually("both moved", 3*time.Second, func() bool { return o.has(vip4) && o.has(vip6) && !h.has(vip4) && !h.has(vip6) })
	r.oneHolder(both...)
}

func TestHardCase27_NodesThatComeInABurstMoveNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	mark, began := r.mark(), time.Now()
	for n := 4; n < 54; n++ {
		r.tellAll(func(v *state.NetworkView) { v.Nodes = nodes(n%6 + 3) })
		time.Sleep(100 * time.Millisecond)
	}
	// One a second, the first, the last and one more: on a full machine the burst takes longer than 5 s.
	most := int(time.Since(began).Seconds()) + 3
	r.never("a VIP moved", 2*time.Second, func() bool { return r.mark() != mark })
	for _, h := range r.hosts {
		if n := h.reloads(); n > most {
			t.Errorf("%s: %d reloads, want %d at most", h.name, n, most)
		}
	}
}

// The second pair is added, removed, and added with another address.
func TestHardCase22_ASecondVIPThatComesAndGoesLeavesTheFirstAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.tellAll(func(v *state.NetworkView) { v.Settings.APIVIPs = v.Settings.APIVIPs[:1:1] })
	for _, h := range r.hosts {
		h.startAgent()
		h.startDaemon()
	}
	r.eventually("a holder", 10*time.Second, func() bool { return len(r.holders(vip4)) == 1 })
	r.settle(vip4)
	mark := r.mark()
	for _, second := range []netip.Addr{vip6, ingress6} {
		r.tellAll(func(v *state.NetworkView) { v.Settings.APIVIPs = append(v.Settings.APIVIPs[:1:1], second) })
		took := r.eventually("the second is held", 10*time.Second, func() bool { return len(r.holders(second)) == 1 })
		t.Logf("held after %s", took)
		time.Sleep(time.Second)
		r.tellAll(func(v *state.NetworkView) { v.Settings.APIVIPs = v.Settings.APIVIPs[:1:1] })
		r.eventually("the second is gone", 5*time.Second, func() bool { return len(r.holders(second)) == 0 })
		if moved := r.since(mark, vip4); len(moved) > 0 {
			t.Errorf("the first one moved: %+v", moved)
		}
	}
}

// After a boot keepalived starts before the agent, with yesterday's
// configuration and no track files from the agent. It must follow the agent's
// files as soon as they exist.
func TestHardCase33_ABootedHostHoldsTheVIPAndListensToTheAgentThatComesLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	for _, h := range r.hosts {
		must(t, h.agent.Process.Kill())
		_ = h.agent.Wait()
		h.killDaemon()
		_ = h.daemon.Wait()
		h.run("ip", "address", "flush", "dev", "eth0", "to", "10.98.0.5/32")
		h.run("ip", "-6", "address", "flush", "dev", "eth0", "to", "fd98::5/128")
		must(t, os.RemoveAll(h.path("/run")))
		must(t, os.MkdirAll(h.path(render.TrackDir), 0o755)) // kubelet makes the directory
	}
	for _, h := range r.hosts {
		h.startDaemon()
	}
	r.eventually("held by what was on disk", 5*time.Second, func() bool { return len(r.holders(vip4)) == 1 && len(r.holders(vip6)) == 1 })
	h := r.holder(vip4)
	o := r.others(h)[0]
	h.tell(func(v *state.NetworkView) { v.Balancer, v.LocalAPI = state.Fact[state.Balancer]{}, state.Known(false) })
	h.startAgent()
	o.startAgent()
	r.moved(h)
	r.oneHolder(both...)
}
