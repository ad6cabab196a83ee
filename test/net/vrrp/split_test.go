package vrrp

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// noAPI sets the view of a host that reaches no API server.
func noAPI(v *state.NetworkView) {
	b := state.Balancer{Backends: map[string]bool{}}
	for _, n := range v.Nodes.Value {
		b.Backends[n.Name] = false
	}
	v.Balancer, v.LocalAPI = state.Known(b), state.Known(false)
}

func healthy(v *state.NetworkView) {
	b := state.Balancer{Backends: map[string]bool{}}
	for _, n := range v.Nodes.Value {
		b.Backends[n.Name] = true
	}
	v.Balancer, v.LocalAPI, v.Redirected = state.Known(b), state.Known(true), true
}

func TestHardCase04_ADeadAPIServerBesideALiveHaproxyMovesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h, mark := r.holder(vip4), r.mark()
	h.tell(func(v *state.NetworkView) {
		v.LocalAPI = state.Known(false)
		v.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"h1": h.n != 1, "h2": h.n != 2, "h3": h.n != 3}})
	})
	r.never("a VIP moved", 8*time.Second, func() bool { return r.mark() != mark })
}

func TestHardCase03_WithoutHaproxyOnTheHolderAnotherFollows(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	h.tell(func(v *state.NetworkView) { v.Balancer = state.Fact[state.Balancer]{} })
	r.moved(h)
	r.settle(both...)
	r.oneHolder(both...)
}

// Every API server fails for every host, for each at another moment, for longer
// than any timeout. All hosts still answer.
func TestHardCase06_AnOverloadedAPIMovesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	mark := r.mark()
	for _, lag := range []time.Duration{0, 700 * time.Millisecond} {
		for _, h := range r.hosts {
			h.tell(noAPI)
			time.Sleep(lag)
		}
		r.never("a VIP moved while the API is overloaded", 9*time.Second, func() bool { return r.mark() != mark })
		for _, h := range r.hosts {
			h.tell(healthy)
			time.Sleep(lag)
		}
		r.never("a VIP moved as the API recovered", 6*time.Second, func() bool { return r.mark() != mark })
	}
}

// deaf makes a host drop the adverts of another one.
func (h *testHost) deaf(to *testHost) {
	h.run("nft", "add", "table", "inet", "deaf")
	h.run("nft", "add", "chain", "inet", "deaf", "in", "{ type filter hook input priority -200; }")
	h.run("nft", "add", "rule", "inet", "deaf", "in", "ip", "saddr", fmt.Sprintf("10.98.0.1%d", to.n), "ip", "protocol", "112", "drop")
	h.run("nft", "add", "rule", "inet", "deaf", "in", "ip6", "saddr", fmt.Sprintf("fd98::1%d", to.n), "meta", "l4proto", "112", "drop")
}

// If the holder does not receive the other's adverts, nothing happens. If the
// other does not receive the holder's, it takes the VIP, and of two equals the
// lower address yields. If the one that receives has the higher address, both
// hold it until the link is mended: VRRP cannot do better, and the runbook says
// so.
func TestHardCase11_AnAsymmetricSplitHealsToOneHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	holder := r.holder(vip4)
	other := r.others(holder)[0]
	mark := r.mark()
	holder.deaf(other)
	r.never("a deaf holder moved it", 2*time.Second, func() bool { return r.mark() != mark })
	holder.run("nft", "delete", "table", "inet", "deaf")
	other.deaf(holder)
	r.eventually("the deaf one takes it", 2*time.Second, func() bool { return other.has(vip4) && other.has(vip6) })
	time.Sleep(time.Second)
	if one := len(r.holders(vip4)) == 1; one != (other.n > holder.n) {
		t.Errorf("h%d is deaf: held by %v", other.n, r.holders(vip4))
	}
	other.run("nft", "delete", "table", "inet", "deaf")
	r.eventually("one holder", time.Second, func() bool { return len(r.holders(vip4)) == 1 && len(r.holders(vip6)) == 1 })
}

func TestHardCase12_TheMinoritySideYieldsAndAHealedSplitHasOneHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(both...)
	h := r.holder(vip4)
	h.unplug()
	r.moved(h)
	for _, o := range r.others(h) {
		o.tell(func(v *state.NetworkView) {
			v.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"h1": h.n != 1, "h2": h.n != 2, "h3": h.n != 3}})
		})
	}
	time.Sleep(2 * time.Second) // as long as haproxy takes to find them dead
	h.tell(noAPI)
	r.eventually("the minority yields", 5*time.Second, func() bool { return !h.has(vip4) && !h.has(vip6) })
	holder := r.holder(vip4)
	h.plug()
	healed := time.Now()
	r.tellAll(healthy)
	r.never("a second holder after the split", 3*time.Second, func() bool { return len(r.holders(vip4)) != 1 || len(r.holders(vip6)) != 1 })
	if now := r.holder(vip4); now != holder {
		t.Errorf("it moved from h%d to h%d, %s after the split was healed", holder.n, now.n, time.Since(healed))
	}
}

// There is no minority here: both sides of a cut between two, with no known
// verdict, hold the VIP. Only one must be left as soon as they receive each
// other's adverts.
func TestHardCase12_TwoThatHeldItBecomeOneWithinAMasterDownTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.start(both...)
	h := r.holder(vip4)
	h.unplug()
	r.moved(h)
	time.Sleep(time.Second)
	h.plug()
	r.eventually("one holder", time.Second, func() bool { return len(r.holders(vip4)) == 1 && len(r.holders(vip6)) == 1 })
}

func TestHardCase40_OnlyTheSurvivorOfAFenceHoldsTheVIPs(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.tellAll(func(v *state.NetworkView) { v.Settings.Fencing, v.MayHold = true, state.Known(true) })
	r.start(both...)
	h := r.holder(vip4)
	h.tell(func(v *state.NetworkView) { v.MayHold = state.Known(false) })
	r.moved(h)
	r.farewell(h)
	r.settle(both...)
	// It must stay away even when the survivor is gone, and after a boot.
	o := r.others(h)[0]
	o.unplug()
	r.never("an inert host took it", 2*time.Second, func() bool { return h.has(vip4) || h.has(vip6) })
	h.tell(func(v *state.NetworkView) { v.MayHold = state.Known(true) })
	r.eventually("it may again", 3*time.Second, func() bool { return h.has(vip4) && h.has(vip6) })
}

func TestHardCase40_ABootedHostOfTwoHoldsNothingUntilItIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.tellAll(func(v *state.NetworkView) { v.Settings.Fencing, v.MayHold = true, state.Fact[bool]{} })
	for _, h := range r.hosts {
		h.startAgent()
	}
	for _, h := range r.hosts {
		h.startDaemon()
	}
	r.never("held, and nobody said so", 3*time.Second, func() bool { return len(r.holders(vip4))+len(r.holders(vip6)) > 0 })
	r.hosts[0].tell(func(v *state.NetworkView) { v.MayHold = state.Known(true) })
	r.eventually("held", 2*time.Second, func() bool { return r.hosts[0].has(vip4) && r.hosts[0].has(vip6) })
	// A fact that becomes unknown later must change nothing.
	r.hosts[0].tell(func(v *state.NetworkView) { v.MayHold = state.Fact[bool]{} })
	r.never("given up", 2*time.Second, func() bool { return !r.hosts[0].has(vip4) })
}
