package vrrp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Fault is the value of a track file that keeps its VIPs off this host. It is
// below what keepalived takes for a weight: keepalived.conf(5), track files.
const Fault = -254

// Weights of the checks: docs/facts/network.md#weights. A host that brings the
// cluster up has bootstrapWeight and nothing else, and wins.
const (
	bootstrapWeight = 30
	balancerWeight  = 20
	serverWeight    = 5
	readyWeight     = 10
	defaultWeight   = 50
)

// Health holds the recent states of a host's parts, as Follow keeps them.
type Health struct {
	// Balancer: VIP:6443 leads through a haproxy to a live API server. Server:
	// the host's own API server is ready.
	Balancer, Server Trend
}

// Trend is a yes or no that is believed only once it has lasted.
type Trend struct {
	Believed, Seen bool
	// Since is when Seen was first seen, unbroken.
	Since time.Time
	// Known is false before the first observation.
	Known bool
}

// How long a change has to last before it is believed. An overloaded API fails on
// all hosts within moments (hard case 6). The holder must then be the last to lose
// its weight and the first to get it back, or the VIP would move at each swing. The
// spread covers two of haproxy's checks.
const (
	HolderFall = 6 * time.Second
	OtherFall  = time.Second
	OtherRise  = 4 * time.Second
)

// patience returns how long a change waits on a holder and on another host.
func patience(rise, holder bool) time.Duration {
	switch {
	case rise && holder:
		return 0
	case rise:
		return OtherRise
	case holder:
		return HolderFall
	default:
		return OtherFall
	}
}

// Step takes in what is seen now; due is when to call it again although nothing
// changes, zero if never.
func (t Trend) Step(seen, holder bool, now time.Time) (after Trend, due time.Time) {
	if !t.Known {
		return Trend{Believed: seen, Seen: seen, Since: now, Known: true}, time.Time{}
	}
	if seen != t.Seen {
		t.Seen, t.Since = seen, now
	}
	if t.Seen == t.Believed {
		return t, time.Time{}
	}
	if at := t.Since.Add(patience(seen, holder)); now.Before(at) {
		return t, at
	}
	t.Believed = t.Seen
	return t, time.Time{}
}

// startGrace is how long after the agent's start a missing way through haproxy is
// ignored: the agent may not have asked haproxy yet, nor made the redirect of
// VIP:6443.
const startGrace = time.Second

// Follow brings a host's health up to date with a view; holder is true where this
// host holds an API VIP. A haproxy that does not answer is gone, on this host
// alone: Follow believes that at once.
func Follow(h Health, v state.NetworkView, holder bool, now time.Time) (after Health, due time.Time) {
	gone := !v.Balancer.Known
	through := !gone && v.Balancer.Value.Live() > 0 && v.Redirected
	var first, second time.Time
	switch {
	case !through && !h.Balancer.Known && (h.Balancer.Since.IsZero() || now.Before(h.Balancer.Since.Add(startGrace))):
		after.Balancer = Trend{Since: now}
		if !h.Balancer.Since.IsZero() {
			after.Balancer.Since = h.Balancer.Since
		}
		first = after.Balancer.Since.Add(startGrace)
	case gone:
		after.Balancer = Trend{Known: true, Since: now}
	default:
		after.Balancer, first = h.Balancer.Step(through, holder, now)
	}
	after.Server, second = h.Server.Step(state.Is(v.LocalAPI, true), holder, now)
	return after, earlier(first, second)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// Weight is the value of one track file, with the reason.
type Weight struct {
	Value int
	Why   string
}

// APIWeight returns how strongly a host asks for the API VIPs. before is the
// present value of its track file, unknown without one.
//
// haproxy itself makes up for the failure of an API server, so the VIP moves only
// where haproxy or the way to it is broken. Where it is broken on all hosts, the
// VIP moves to a live API server.
func APIWeight(v state.NetworkView, h Health, before state.Fact[int]) Weight {
	switch {
	case state.Is(v.MayHold, false):
		return Weight{Fault, "this host must not hold a VIP"}
	case Leaves(v):
		return Weight{Fault, leaving}
	case !v.MayHold.Known && v.Settings.Fencing && v.Stage == state.StageInstalled && (!before.Known || before.Value == Fault):
		return Weight{Fault, "it is unknown whether this host may hold a VIP"}
	case isolated(v):
		return Weight{Fault, "no API server answers and most control planes are out of reach"}
	case Bootstrapping(v):
		return Weight{bootstrapWeight, "this host bootstraps the cluster"}
	case h.Balancer.Believed:
		return Weight{balancerWeight + serverWeight, "through haproxy"}
	case !h.Balancer.Known && before.Known && before.Value > 0:
		return Weight{before.Value, "as before the agent's start"}
	case h.Server.Believed:
		return Weight{serverWeight, "own API server only"}
	}
	return Weight{0, "no API server"}
}

const leaving = "this host is about to boot"

// Leaves reports whether this host gives its VIPs away. It keeps them where there is
// no other host.
func Leaves(v state.NetworkView) bool { return v.Leaving && others(v) }

// others reports whether there is another host that could take a VIP.
func others(v state.NetworkView) bool { return len(v.Nodes.Value) > 1 }

// GivesAway reports whether this host lives and gives a VIP that it has away in order, because it
// is about to boot or because its router drains. Another host takes the VIP within a second, if
// one can.
func GivesAway(v state.NetworkView, vip netip.Addr) bool {
	drains := v.Router.Known && v.Router.Value.Healthy && !v.Router.Value.Ready && slices.Contains(Ingress.vips(v.Settings), vip)
	return holds(v, vip) && others(v) && (v.Announces || v.Leaving || drains)
}

// isolated reports whether this host is on the losing side of a cut: no API server
// that it could send a client to is ready, and too few control planes answer at all
// for a quorum. An API that is merely overloaded still answers. On two hosts the
// result of fencing decides instead, as MayHold.
func isolated(v state.NetworkView) bool {
	if v.Settings.Fencing || !v.Reachable.Known || state.Is(v.LocalAPI, true) || (v.Balancer.Known && v.Balancer.Value.Live() > 0) {
		return false
	}
	self, listed := v.Self()
	if !listed || !controlPlane(self) {
		return false
	}
	masters := controlPlanes(v.Nodes.Value)
	out := 0
	for _, n := range masters {
		if answers, asked := v.Reachable.Value[n.Name]; asked && !answers && n.Name != self.Name {
			out++
		}
	}
	return len(masters)-out < len(masters)/2+1
}

// IngressWeight returns how strongly a host asks for the ingress VIPs: only where a
// router serves, more where one takes new connections, most where it is one of the
// default controller. Before a router was asked, the value of the track file
// stands.
func IngressWeight(v state.NetworkView, before state.Fact[int]) Weight {
	r := v.Router.Value
	switch {
	case state.Is(v.MayHold, false):
		return Weight{Fault, "this host must not hold a VIP"}
	case Leaves(v):
		return Weight{Fault, leaving}
	case !v.Router.Known && before.Known:
		return Weight{before.Value, "no router was checked yet"}
	case !v.Router.Known || !r.Healthy:
		return Weight{Fault, "no router is serving on this host"}
	}
	w := Weight{0, "a router is draining"}
	if r.Ready {
		w = Weight{readyWeight, "a router is ready"}
	}
	if r.Default {
		w.Value += defaultWeight
	}
	return w
}

// First returns the value of a track file before the agent has written one, as
// after a boot. Where two hosts fence each other, and for ingress, a host holds
// nothing until the agent has written it.
func First(kind Kind, s state.NetworkSettings) int {
	if kind == Ingress || s.Fencing {
		return Fault
	}
	return 0
}

// Holds reports whether this host has a VIP of a kind.
func Holds(v state.NetworkView, kind Kind) bool {
	return slices.ContainsFunc(kind.vips(v.Settings), func(vip netip.Addr) bool { return holds(v, vip) })
}

// Barred returns why an instance must not hold its VIP, empty where it may. A host
// does not take a VIP from a foreign host, since two holders would serve nobody. A
// host that has the VIP goes on, and the foreign host is reported. A VIP that
// another host of the cluster left behind, or that a switch answers for in its
// name, is taken. Without its own address a host can send no adverts, and the
// others take the VIP.
func Barred(v state.NetworkView, i Instance) string {
	has := func(a netip.Addr) bool {
		return slices.ContainsFunc(v.Addresses, func(h state.HostAddress) bool { return h.Prefix.Addr() == a })
	}
	switch {
	case len(v.Addresses) > 0 && !has(i.Source):
		return "own address " + i.Source.String() + " is gone"
	case !has(i.VIP) && slices.ContainsFunc(v.Claims, func(c state.VIPClaim) bool { return c.VIP == i.VIP && c.Host == "" }):
		return "a foreign host has " + i.VIP.String()
	}
	return ""
}
