package vrrp_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func live(names ...string) state.Fact[state.Balancer] {
	b := state.Balancer{Backends: map[string]bool{"h11": false, "h12": false, "h13": false}}
	for _, n := range names {
		b.Backends[n] = true
	}
	return state.Known(b)
}

// healthy is an installed control plane that lacks nothing.
func healthy(n int) state.NetworkView {
	v := viewOf(n, three...)
	v.Balancer, v.Redirected, v.LocalAPI = live("h11", "h12", "h13"), true, state.Known(true)
	return v
}

func weight(v state.NetworkView) vrrp.Weight {
	h, _ := vrrp.Follow(vrrp.Health{}, v, false, epoch)
	return vrrp.APIWeight(v, h, state.Fact[int]{})
}

func TestAPIWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.NetworkView)
		want   int
	}{
		{"all is well", func(*state.NetworkView) {}, 25},
		{"hard case 4: the own API server is down, haproxy is not", func(v *state.NetworkView) {
			v.LocalAPI, v.Balancer = state.Known(false), live("h12")
		}, 25},
		{"haproxy does not answer", func(v *state.NetworkView) { v.Balancer = state.Fact[state.Balancer]{} }, 5},
		{"nothing leads to haproxy", func(v *state.NetworkView) { v.Redirected = false }, 5},
		{"haproxy knows no live API server", func(v *state.NetworkView) { v.Balancer = live() }, 5},
		{"neither haproxy nor API server", func(v *state.NetworkView) {
			v.Balancer, v.LocalAPI = state.Fact[state.Balancer]{}, state.Known(false)
		}, 0},
		{"nothing is known", func(v *state.NetworkView) { *v = state.NetworkView{} }, 0},
		{"it may not", func(v *state.NetworkView) { v.MayHold = state.Known(false) }, vrrp.Fault},
	} {
		v := healthy(11)
		c.change(&v)
		if got := weight(v); got.Value != c.want || got.Why == "" {
			t.Errorf("%s: %+v, want %d", c.name, got, c.want)
		}
	}
}

func TestHardCase05_WithoutAnyHaproxyTheLiveAPIServerWins(t *testing.T) {
	dead, lives := healthy(11), healthy(12)
	dead.Balancer, lives.Balancer = state.Fact[state.Balancer]{}, state.Fact[state.Balancer]{}
	dead.LocalAPI = state.Known(false)
	if a, b := weight(dead), weight(lives); a.Value >= b.Value {
		t.Errorf("%+v against %+v", a, b)
	}
}

// swing is one host in a simulation of hard case 6.
type swing struct {
	view   state.NetworkView
	health vrrp.Health
	weight int
}

func (s *swing) at(now time.Time, up, holder bool) {
	s.view.LocalAPI, s.view.Balancer, s.view.Redirected = state.Known(up), live(), up
	if up {
		s.view.Balancer = live("h11", "h12", "h13")
	}
	s.health, _ = vrrp.Follow(s.health, s.view, holder, now)
	s.weight = vrrp.APIWeight(s.view, s.health, state.Fact[int]{}).Value
}

// All API servers fail and recover together, but a host may see that up to two
// checks later than another. No host may ever outweigh the holder, however long it
// lasts.
func TestHardCase06_AnOverloadedAPIMovesNothing(t *testing.T) {
	const step = 100 * time.Millisecond
	for _, lasts := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 7 * time.Second, 30 * time.Second, 2 * time.Minute} {
		for lag := -2 * time.Second; lag <= 2*time.Second; lag += 500 * time.Millisecond {
			a, b := &swing{view: healthy(11)}, &swing{view: healthy(12)}
			for at := time.Duration(0); at < lasts+time.Minute; at += step {
				down := func(lag time.Duration) bool { return at >= 10*time.Second+lag && at < 10*time.Second+lasts+lag }
				a.at(epoch.Add(at), !down(0), true)
				b.at(epoch.Add(at), !down(lag), false)
				if b.weight > a.weight {
					t.Fatalf("lasts %s, the other sees it %s later: at %s it has %d and the holder %d", lasts, lag, at, b.weight, a.weight)
				}
			}
		}
	}
}

func TestAHolderThatAloneLostTheAPIYieldsAfterAWhile(t *testing.T) {
	v := healthy(11)
	h, _ := vrrp.Follow(vrrp.Health{}, v, true, epoch)
	v.Balancer, v.LocalAPI = live(), state.Known(false)
	h, due := vrrp.Follow(h, v, true, epoch.Add(time.Second))
	if want := epoch.Add(time.Second + vrrp.HolderFall); !due.Equal(want) {
		t.Fatalf("it is to be asked again at %s, want %s", due, want)
	}
	if w := vrrp.APIWeight(v, h, state.Fact[int]{}); w.Value != 25 {
		t.Errorf("too early: %+v", w)
	}
	h, due = vrrp.Follow(h, v, true, due)
	if w := vrrp.APIWeight(v, h, state.Fact[int]{}); w.Value != 0 || !due.IsZero() {
		t.Errorf("%+v, asked again at %s", w, due)
	}
}

// TestAHostThatIsAboutToBootGivesItsVIPsAway: but a lone host has nobody to give them
// to.
func TestAHostThatIsAboutToBootGivesItsVIPsAway(t *testing.T) {
	v := healthy(11)
	v.Router = state.Known(state.Router{Healthy: true, Ready: true})
	h, _ := vrrp.Follow(vrrp.Health{}, v, true, epoch)
	weights := func() [2]int {
		return [2]int{vrrp.APIWeight(v, h, state.Known(25)).Value, vrrp.IngressWeight(v, state.Known(10)).Value}
	}
	if got, want := weights(), [2]int{25, 10}; got != want {
		t.Errorf("before: %d, want %d", got, want)
	}
	v.Leaving = true
	if got, want := weights(), [2]int{vrrp.Fault, vrrp.Fault}; got != want {
		t.Errorf("%d, want %d", got, want)
	}
	v.Nodes.Value = v.Nodes.Value[:1]
	if got, want := weights(), [2]int{25, 10}; got != want {
		t.Errorf("a lone host: %d, want %d", got, want)
	}
}

func TestHardCase03_AHaproxyThatIsGoneCountsAtOnce(t *testing.T) {
	v := healthy(11)
	h, _ := vrrp.Follow(vrrp.Health{}, v, true, epoch)
	v.Balancer = state.Fact[state.Balancer]{}
	h, _ = vrrp.Follow(h, v, true, epoch)
	if w := vrrp.APIWeight(v, h, state.Fact[int]{}); w.Value != 5 {
		t.Errorf("%+v", w)
	}
}

func TestHardCase12_TheMinorityOfASplitYieldsAndAnOverloadedClusterDoesNot(t *testing.T) {
	five := []state.Node{master(11), master(12), master(13), master(14), master(15)}
	for _, c := range []struct {
		name    string
		nodes   []state.Node
		answers map[string]bool
		change  func(*state.NetworkView)
		want    bool
	}{
		{"both others are out of reach", three, map[string]bool{"h12": false, "h13": false}, nil, true},
		{"one of them answers: two of three", three, map[string]bool{"h12": false, "h13": true}, nil, false},
		{"hard case 6: all answer, none is ready", three, map[string]bool{"h12": true, "h13": true}, nil, false},
		{"two of five", five, map[string]bool{"h12": false, "h13": false, "h14": false, "h15": true}, nil, true},
		{"three of five", five, map[string]bool{"h12": false, "h13": false, "h14": true, "h15": true}, nil, false},
		{"a backend is ready", three, map[string]bool{"h12": false, "h13": false}, func(v *state.NetworkView) { v.Balancer = live("h11") }, false},
		{"the own API server is ready", three, map[string]bool{"h12": false, "h13": false}, func(v *state.NetworkView) { v.LocalAPI = state.Known(true) }, false},
		{"not asked yet", three, nil, nil, false},
		{"alone in its cluster", three[:1], map[string]bool{}, nil, false},
		{"two with fencing", three[:2], map[string]bool{"h12": false}, func(v *state.NetworkView) { v.Settings.Fencing, v.MayHold = true, state.Known(true) }, false},
	} {
		v := viewOf(11, c.nodes...)
		v.Balancer, v.LocalAPI = live(), state.Known(false)
		if c.answers != nil {
			v.Reachable = state.Known(c.answers)
		}
		if c.change != nil {
			c.change(&v)
		}
		if got := weight(v); (got.Value == vrrp.Fault) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestAVIPThatIsGivenAwayIsKnownBeforeItMoves: only a host that lives, and that another one can
// follow, says so.
func TestAVIPThatIsGivenAwayIsKnownBeforeItMoves(t *testing.T) {
	ready, drains := state.Known(state.Router{Healthy: true, Ready: true}), state.Known(state.Router{Healthy: true})
	for _, c := range []struct {
		name         string
		change       func(*state.NetworkView)
		api, ingress bool
	}{
		{"all is well", func(*state.NetworkView) {}, false, false},
		{"it is about to boot", func(v *state.NetworkView) { v.Announces = true }, true, true},
		{"it leaves", func(v *state.NetworkView) { v.Leaving = true }, true, true},
		{"its router drains", func(v *state.NetworkView) { v.Router = drains }, false, true},
		{"its router is gone", func(v *state.NetworkView) { v.Router = state.Known(state.Router{}) }, false, false},
		{"no router was asked yet", func(v *state.NetworkView) { v.Router = state.Fact[state.Router]{} }, false, false},
		{"a lone host", func(v *state.NetworkView) {
			v.Leaving, v.Router, v.Nodes = true, drains, state.Known(v.Nodes.Value[:1])
		}, false, false},
		{"it holds none", func(v *state.NetworkView) { v.Leaving, v.Router, v.Addresses = true, drains, nil }, false, false},
	} {
		v := healthy(11)
		v.Router = ready
		v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("10.98.0.5"), addrs("10.98.0.6")
		for _, vip := range v.Settings.VIPs() {
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(vip, 32)})
		}
		c.change(&v)
		if api, ingress := vrrp.GivesAway(v, v.Settings.APIVIPs[0]), vrrp.GivesAway(v, v.Settings.IngressVIPs[0]); api != c.api || ingress != c.ingress {
			t.Errorf("%s: API %t, ingress %t; want %t, %t", c.name, api, ingress, c.api, c.ingress)
		}
	}
}

func TestHardCase37_IngressWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		router state.Fact[state.Router]
		want   int
	}{
		{"B34: no router serves", state.Known(state.Router{}), vrrp.Fault},
		{"it is not known", state.Fact[state.Router]{}, vrrp.Fault},
		{"B34: it drains, and nobody else has one", state.Known(state.Router{Healthy: true, Default: true}), 50},
		{"it is ready", state.Known(state.Router{Healthy: true, Ready: true, Default: true}), 60},
		{"B33: a second controller's", state.Known(state.Router{Healthy: true, Ready: true}), 10},
		{"a second controller's drains", state.Known(state.Router{Healthy: true}), 0},
	} {
		v := viewOf(11, three...)
		v.Router = c.router
		if got := vrrp.IngressWeight(v, state.Fact[int]{}); got.Value != c.want || got.Why == "" {
			t.Errorf("%s: %+v, want %d", c.name, got, c.want)
		}
		v.MayHold = state.Known(false)
		if got := vrrp.IngressWeight(v, state.Fact[int]{}); got.Value != vrrp.Fault {
			t.Errorf("%s, and it may not: %+v", c.name, got)
		}
	}
}

func TestHardCase40_WhatIsUnknownKeepsWhatATwoNodeHostHad(t *testing.T) {
	for _, c := range []struct {
		name   string
		stage  state.NetworkStage
		before state.Fact[int]
		want   int
	}{
		{"after a boot", state.StageInstalled, state.Fact[int]{}, vrrp.Fault},
		{"it was inert", state.StageInstalled, state.Known(vrrp.Fault), vrrp.Fault},
		{"it held", state.StageInstalled, state.Known(25), 25},
		{"nobody keeps etcd yet", state.StageReady, state.Fact[int]{}, 25},
	} {
		v := healthy(11)
		v.Settings.Fencing, v.Stage = true, c.stage
		h, _ := vrrp.Follow(vrrp.Health{}, v, false, epoch)
		if got := vrrp.APIWeight(v, h, c.before); got.Value != c.want {
			t.Errorf("%s: %+v, want %d", c.name, got, c.want)
		}
	}
	if vrrp.First(vrrp.API, state.NetworkSettings{Fencing: true}) != vrrp.Fault || vrrp.First(vrrp.Ingress, state.NetworkSettings{}) != vrrp.Fault || vrrp.First(vrrp.API, state.NetworkSettings{}) != 0 {
		t.Error("what a track file begins with")
	}
}

func TestHardCase17_AStrangersVIPIsNotTakenAndAnOwnOneIsNotGivenUp(t *testing.T) {
	v := viewOf(11, three...)
	instances := vrrp.Instances(v).Instances
	if why := vrrp.Barred(v, instances[0]); why != "" {
		t.Error("nobody claims it:", why)
	}
	v.Claims = []state.VIPClaim{{VIP: addr("10.98.0.5"), By: "02:00:00:00:00:01"}}
	if vrrp.Barred(v, instances[0]) == "" || vrrp.Barred(v, instances[1]) != "" {
		t.Error("a stranger's VIP is taken, or another one is not")
	}
	v.Addresses = append(v.Addresses, on("eth0", "10.98.0.5", 32))
	if why := vrrp.Barred(v, instances[0]); why != "" {
		t.Error("an own VIP is given up:", why)
	}
	if !vrrp.Holds(v, vrrp.API) || vrrp.Holds(v, vrrp.Ingress) {
		t.Error("what it holds")
	}
}

func TestAHostWithoutItsOwnAddressHoldsNothingOfThatFamily(t *testing.T) {
	v := viewOf(11, three...)
	instances := vrrp.Instances(v).Instances
	v.Addresses = []state.HostAddress{on("eth0", "10.98.0.11", 24), on("eth0", "fd98::5", 128)}
	if vrrp.Barred(v, instances[0]) != "" || vrrp.Barred(v, instances[1]) == "" {
		t.Error("the wrong family is barred")
	}
	v.Addresses = nil
	if vrrp.Barred(v, instances[1]) != "" {
		t.Error("the kernel was not asked yet")
	}
}

func TestHardCase02_AnAgentThatStartsLeavesTheLastWordUntilItKnows(t *testing.T) {
	v, last := viewOf(11, master(11), master(12)), state.Known(25)
	if w := vrrp.IngressWeight(v, state.Known(60)); w.Value != 60 {
		t.Errorf("ingress, before a router was asked: %+v", w)
	}
	v.LocalAPI = state.Known(true)
	h, due := vrrp.Follow(vrrp.Health{}, v, true, epoch)
	if w := vrrp.APIWeight(v, h, last); w.Value != 25 || due.IsZero() {
		t.Errorf("before haproxy was asked: %+v, again at %s", w, due)
	}
	v.Balancer = live("h11")
	h, _ = vrrp.Follow(h, v, true, epoch.Add(500*time.Millisecond))
	if w := vrrp.APIWeight(v, h, last); w.Value != 25 {
		t.Errorf("before anybody looked where the VIP leads: %+v", w)
	}
	v.Balancer = state.Fact[state.Balancer]{}
	h, _ = vrrp.Follow(h, v, true, epoch.Add(2*time.Second))
	if w := vrrp.APIWeight(v, h, last); w.Value != 5 {
		t.Errorf("haproxy does not answer at all: %+v", w)
	}
}
