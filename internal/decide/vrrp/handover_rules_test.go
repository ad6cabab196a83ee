package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// A small site: a VIP of the API, one of ingress, and one of each kind in IPv6.
var (
	apiVIP, ingressVIP   = netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.98.0.6")
	apiVIP6, ingressVIP6 = netip.MustParseAddr("fd98::5"), netip.MustParseAddr("fd98::6")
	ownAddress           = state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}
)

func addresses(vips ...netip.Addr) []state.HostAddress {
	out := []state.HostAddress{ownAddress}
	for _, a := range vips {
		out = append(out, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return out
}

// balancers are the states of a host's balancer, by whether it serves.
var balancers = []struct {
	fact   state.Fact[state.Balancer]
	serves bool
}{
	{state.Fact[state.Balancer]{}, false},
	{state.Fact[state.Balancer]{Value: state.Balancer{Backends: map[string]bool{"cp-1": true}}}, false},
	{state.Known(state.Balancer{}), false},
	{state.Known(state.Balancer{Backends: map[string]bool{"cp-1": false, "cp-2": false}}), false},
	{state.Known(state.Balancer{Backends: map[string]bool{"cp-1": false, "cp-2": true}}), true},
}

var routers = []struct {
	fact   state.Fact[state.Router]
	serves bool
}{
	{state.Fact[state.Router]{}, false},
	{state.Fact[state.Router]{Value: state.Router{Healthy: true}}, false},
	{state.Known(state.Router{Ready: true}), false},
	{state.Known(state.Router{Healthy: true}), true},
}

// look is one look of a host at itself.
type look struct {
	knows                bool // which addresses it has
	api, ingress, serves bool
	listed               bool // the site has the VIPs
}

func looks() []look {
	var out []look
	for i := range 32 {
		out = append(out, look{i&1 == 0, i&2 != 0, i&4 != 0, i&8 != 0, i&16 == 0})
	}
	return out
}

func (l look) view(balancer state.Fact[state.Balancer], router state.Fact[state.Router]) state.NetworkView {
	v := state.NetworkView{Balancer: balancer, Router: router}
	if l.listed {
		v.Settings = state.NetworkSettings{APIVIPs: []netip.Addr{apiVIP}, IngressVIPs: []netip.Addr{ingressVIP}}
	}
	if !l.knows {
		return v
	}
	v.Addresses = addresses()
	if l.api {
		v.Addresses = addresses(apiVIP)
	}
	if l.ingress {
		v.Addresses = append(v.Addresses, addresses(ingressVIP)[1])
	}
	return v
}

// What a host remembers of a VIP.
const (
	never = iota
	holdsIt
	hasLeft
)

// lingered says what is done with a VIP by a second formulation of the rule.
func lingered(memory int, held, serves bool) (after int, todo string) {
	switch {
	case held:
		return holdsIt, LingerHeld.String()
	case memory == never:
		return never, ""
	case !serves:
		return never, "0s"
	case memory == holdsIt:
		return hasLeft, LingerLeft.String()
	}
	return hasLeft, ""
}

// TestInEachHistoryAVIPLingersAsItShould plays all histories of four looks.
func TestInEachHistoryAVIPLingersAsItShould(t *testing.T) {
	type history struct {
		memory       Lingering
		api, ingress int
		told         string
	}
	list := []history{{}}
	for range 4 {
		var next []history
		seen := map[[2]int]bool{}
		for _, h := range list {
			for _, l := range looks() {
				balancer, router := balancers[3], routers[2]
				if l.serves {
					balancer, router = balancers[4], routers[3]
				}
				after, todo := Lingers(h.memory, l.view(balancer.fact, router.fact))
				var got []string
				for _, one := range todo {
					got = append(got, fmt.Sprint(one.VIP, " ", one.For))
				}
				n := history{after, h.api, h.ingress, fmt.Sprintf("%s, %+v", h.told, l)}
				var want []string
				if l.knows {
					var a, b string
					n.api, a = lingered(h.api, l.api && l.listed, l.serves)
					n.ingress, b = lingered(h.ingress, l.ingress && l.listed, l.serves)
					for vip, what := range map[netip.Addr]string{apiVIP: a, ingressVIP: b} {
						if what != "" {
							want = append(want, fmt.Sprint(vip, " ", what))
						}
					}
					slices.Sort(want)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %q, want %q", n.told, got, want)
				}
				if key := [2]int{n.api, n.ingress}; !seen[key] {
					seen[key] = true // what it remembers decides all that follows
					next = append(next, n)
				}
			}
		}
		list = next
	}
	if len(list) != 9 {
		t.Errorf("%d states are reached", len(list))
	}
}

// TestAVIPLingersWhereItsOwnServerAnswers: that of the API with the balancer, that of
// ingress with the router, and what is not known serves nobody.
func TestAVIPLingersWhereItsOwnServerAnswers(t *testing.T) {
	held := look{knows: true, api: true, ingress: true, listed: true}
	for i, balancer := range balancers {
		for k, router := range routers {
			memory, _ := Lingers(nil, held.view(balancer.fact, router.fact))
			_, todo := Lingers(memory, look{knows: true, listed: true}.view(balancer.fact, router.fact))
			want := []Linger{{VIP: apiVIP}, {VIP: ingressVIP}}
			if balancer.serves {
				want[0].For = LingerLeft
			}
			if router.serves {
				want[1].For = LingerLeft
			}
			if !slices.Equal(todo, want) {
				t.Errorf("balancer %d, router %d: %v, want %v", i, k, todo, want)
			}
		}
	}
}

// TestAVIPStaysForAsLongAsItIsRenewed: a kept VIP outlasts two renewals that are missed,
// and one that has left outlasts the relay to it and a router that drains.
func TestAVIPStaysForAsLongAsItIsRenewed(t *testing.T) {
	const renewed, drains = 30 * time.Second, 10 * time.Second
	if LingerHeld < 3*renewed || LingerLeft <= RelayFor || RelayFor <= drains {
		t.Error(LingerHeld, LingerLeft, RelayFor)
	}
}

// TestVIPsOfBothFamiliesLinger, in the order of their addresses.
func TestVIPsOfBothFamiliesLinger(t *testing.T) {
	v := state.NetworkView{Settings: state.NetworkSettings{APIVIPs: []netip.Addr{apiVIP6, apiVIP}, IngressVIPs: []netip.Addr{ingressVIP6, ingressVIP}}}
	all := []netip.Addr{apiVIP, ingressVIP, apiVIP6, ingressVIP6}
	for set := range 16 {
		var held []netip.Addr
		for i, vip := range all {
			if set&(1<<i) != 0 {
				held = append(held, vip)
			}
		}
		v.Addresses = addresses(held...)
		_, todo := Lingers(nil, v)
		var got []netip.Addr
		for _, l := range todo {
			got = append(got, l.VIP)
		}
		if !slices.Equal(got, held) {
			t.Errorf("%v: %v", held, got)
		}
		if Holds(v, API) != (set&0b0101 != 0) || Holds(v, Ingress) != (set&0b1010 != 0) {
			t.Errorf("%v: holds one of the API %v, of ingress %v", held, Holds(v, API), Holds(v, Ingress))
		}
	}
}

// saw is one look of a host at a VIP: whether it holds it, who else says so, and how long
// after the look before.
type saw struct {
	held  bool
	other string
	after time.Duration
}

// TestInEachHistoryPacketsArePassedOnAsTheyShould plays all histories of four looks
// against a second formulation: they are passed on at the look at which another host has
// stopped to say that it holds the VIP, to that one, unless this host has held the VIP
// for longer than 3 s, or ever since the agent began.
func TestInEachHistoryPacketsArePassedOnAsTheyShould(t *testing.T) {
	var one []saw
	for _, held := range []bool{false, true} {
		for _, other := range []string{"", "cp-1", "cp-3"} {
			for _, after := range []time.Duration{2 * time.Second, 4 * time.Second} {
				one = append(one, saw{held, other, after})
			}
		}
	}
	relayed := 0
	var play func(memory Relays, now time.Time, past []saw)
	play = func(memory Relays, now time.Time, past []saw) {
		if len(past) == 4 {
			return
		}
		for _, s := range one {
			history := append(slices.Clone(past), s)
			at := now.Add(s.after)
			after, todo := NextRelays(memory, s.view(), at)
			want := passed(history)
			if fmt.Sprint(todo) != want {
				t.Fatalf("%+v: %v, want %s", history, todo, want)
			}
			relayed += len(todo)
			play(after, at, history)
		}
	}
	play(nil, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), nil)
	if relayed < 1000 {
		t.Errorf("only %d times", relayed)
	}
}

func (s saw) view() state.NetworkView {
	v := state.NetworkView{Host: state.HostFacts{NodeName: "cp-2"}, Settings: state.NetworkSettings{APIVIPs: []netip.Addr{apiVIP}}, Addresses: addresses()}
	if s.held {
		v.Addresses = addresses(apiVIP)
	}
	var list []state.Node
	for i, name := range []string{"cp-1", "cp-2", "cp-3"} {
		n := state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: "", state.LabelMaster: ""}, Annotations: map[string]string{}}
		n.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 98, 0, byte(11 + i)})}
		if s.other == name {
			n.Annotations[HoldsAnnotation] = apiVIP.String()
		}
		list = append(list, n)
	}
	v.Nodes = state.Known(list)
	return v
}

// passed says to whom packets are passed on at the last look of a history.
func passed(history []saw) string {
	last := len(history) - 1
	if last == 0 || history[last].other != "" || history[last-1].other == "" {
		return "[]"
	}
	former := map[string]string{"cp-1": "10.98.0.11", "cp-3": "10.98.0.13"}[history[last-1].other]
	if history[last].held {
		var since time.Duration
		i := last
		for ; i > 0 && history[i-1].held; i-- {
			since += history[i].after
		}
		if i == 0 || since > 3*time.Second {
			return "[]" // it had it from the beginning, or for long
		}
	}
	return fmt.Sprintf("[{%s %s}]", apiVIP, former)
}

// TestWhatIsNotKnownKeepsTheMemory: a look without addresses, or without nodes, counts for
// nothing, and the next one goes on from the one before.
func TestWhatIsNotKnownKeepsTheMemory(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for what, blind := range map[string]func(*state.NetworkView){
		"addresses": func(v *state.NetworkView) { v.Addresses = nil },
		"nodes":     func(v *state.NetworkView) { v.Nodes.Known = false },
	} {
		memory, _ := NextRelays(nil, saw{other: "cp-1"}.view(), now)
		v := saw{}.view()
		blind(&v)
		memory, todo := NextRelays(memory, v, now.Add(time.Second))
		if len(todo) > 0 {
			t.Errorf("%s are not known: %v", what, todo)
		}
		if _, todo = NextRelays(memory, saw{}.view(), now.Add(2*time.Second)); len(todo) != 1 {
			t.Errorf("%s were not known for a moment: %v", what, todo)
		}
		if after, todo := NextRelays(nil, v, now); after != nil || todo != nil {
			t.Errorf("%s are not known from the beginning: %v %v", what, after, todo)
		}
	}
}

// TestWhoSaysThatItHoldsAVIPIsBelieved: another host by its node, and of the API only a
// control plane; packets go to its address of the same family.
func TestWhoSaysThatItHoldsAVIPIsBelieved(t *testing.T) {
	control := map[string]string{state.LabelControlPlane: "", state.LabelMaster: ""}
	four, six := netip.MustParseAddr("10.98.0.13"), netip.MustParseAddr("fd98::13")
	both := []netip.Addr{six, four}
	for what, c := range map[string]struct {
		node state.Node
		vip  netip.Addr
		want netip.Addr
	}{
		"a control plane":                      {state.Node{Name: "cp-1", Labels: control, Addresses: both}, apiVIP, four},
		"in IPv6":                              {state.Node{Name: "cp-1", Labels: control, Addresses: both}, apiVIP6, six},
		"one without an address of the family": {state.Node{Name: "cp-1", Labels: control, Addresses: []netip.Addr{six}}, apiVIP, netip.Addr{}},
		"one without any address":              {state.Node{Name: "cp-1", Labels: control}, apiVIP, netip.Addr{}},
		"a worker, of the API":                 {state.Node{Name: "w-1", Addresses: both}, apiVIP, netip.Addr{}},
		"a worker, of ingress":                 {state.Node{Name: "w-1", Addresses: both}, ingressVIP, four},
		"a control plane, of ingress":          {state.Node{Name: "cp-1", Labels: control, Addresses: both}, ingressVIP6, six},
		"this host itself":                     {state.Node{Name: "cp-2", Labels: control, Addresses: both}, apiVIP, netip.Addr{}},
	} {
		for text, says := range map[string]bool{
			c.vip.String(): true, "10.0.0.1," + c.vip.String(): true, c.vip.String() + ",10.0.0.1": true,
			"": false, c.vip.String() + "0": false, "1" + c.vip.String(): false, c.vip.String() + ", 10.0.0.1": true, " " + c.vip.String(): false, "10.0.0.1": false,
		} {
			c.node.Annotations = map[string]string{HoldsAnnotation: text}
			v := state.NetworkView{Host: state.HostFacts{NodeName: "cp-2"}, Nodes: state.Known([]state.Node{c.node}), Addresses: addresses()}
			v.Settings = state.NetworkSettings{APIVIPs: []netip.Addr{apiVIP, apiVIP6}, IngressVIPs: []netip.Addr{ingressVIP, ingressVIP6}}
			want := netip.Addr{}
			if says {
				want = c.want
			}
			if got := holder(v, c.vip); got != want {
				t.Errorf("%s, %q: %v, want %v", what, text, got, want)
			}
		}
	}
}

// TestTheFirstOfTwoThatSayItIsTheHolder, and the next one if that has no address.
func TestTheFirstOfTwoThatSayItIsTheHolder(t *testing.T) {
	node := func(name string, addresses ...netip.Addr) state.Node {
		return state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: addresses, Annotations: map[string]string{HoldsAnnotation: apiVIP.String()}}
	}
	first, second := netip.MustParseAddr("10.98.0.21"), netip.MustParseAddr("10.98.0.22")
	v := state.NetworkView{Settings: state.NetworkSettings{APIVIPs: []netip.Addr{apiVIP}}}
	v.Nodes = state.Known([]state.Node{node("a", first), node("b", second)})
	if got := holder(v, apiVIP); got != first {
		t.Errorf("two: %v", got)
	}
	v.Nodes = state.Known([]state.Node{node("a"), node("b", second)})
	if got := holder(v, apiVIP); got != second {
		t.Errorf("one without an address: %v", got)
	}
}

// TestEachVIPIsRememberedForItself: what happens to one of them is nothing to another.
func TestEachVIPIsRememberedForItself(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	all := []netip.Addr{apiVIP, apiVIP6, ingressVIP}
	view := func(said string) state.NetworkView {
		v := state.NetworkView{Host: state.HostFacts{NodeName: "cp-2"}, Addresses: addresses()}
		v.Settings = state.NetworkSettings{APIVIPs: all[:2], IngressVIPs: all[2:]}
		v.Nodes = state.Known([]state.Node{{
			Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")},
			Annotations: map[string]string{HoldsAnnotation: said},
		}})
		return v
	}
	text := func(set int) string {
		var out []string
		for i, vip := range all {
			if set&(1<<i) != 0 {
				out = append(out, vip.String())
			}
		}
		return strings.Join(out, ",")
	}
	for before := range 8 {
		for after := range 8 {
			memory, _ := NextRelays(nil, view(text(before)), now)
			_, todo := NextRelays(memory, view(text(after)), now.Add(time.Second))
			var want []string
			for i, vip := range all {
				if before&(1<<i) != 0 && after&(1<<i) == 0 {
					former := map[bool]string{true: "10.98.0.11", false: "fd98::11"}[vip.Is4()]
					want = append(want, fmt.Sprintf("{%s %s}", vip, former))
				}
			}
			if got := fmt.Sprint(todo); got != "["+strings.Join(want, " ")+"]" {
				t.Errorf("%q, then %q: %s, want %s", text(before), text(after), got, want)
			}
		}
	}
}

// TestAHostThatIsAboutToBootGivesItsVIPsAwayIfSomebodyCanTakeThem: in front of all else but
// that it must not hold one.
func TestAHostThatIsAboutToBootGivesItsVIPsAwayIfSomebodyCanTakeThem(t *testing.T) {
	for nodes := range 4 {
		for _, leaves := range []bool{false, true} {
			for _, may := range []state.Fact[bool]{{}, state.Known(true), state.Known(false)} {
				v := state.NetworkView{Leaving: leaves, MayHold: may, Router: state.Known(state.Router{Healthy: true, Ready: true})}
				v.Nodes = state.Known(make([]state.Node, nodes))
				gives := leaves && nodes > 1
				if Leaves(v) != gives {
					t.Errorf("%d nodes, %v: %v", nodes, leaves, Leaves(v))
				}
				for kind, w := range map[Kind]Weight{API: APIWeight(v, Health{Balancer: Trend{Believed: true, Known: true}}, state.Known(25)), Ingress: IngressWeight(v, state.Known(10))} {
					why := map[bool]string{true: "this host is about to boot"}[gives]
					if state.Is(may, false) {
						why = "this host must not hold a VIP"
					}
					if (why != "") != (w.Value == Fault) || why != "" && w.Why != why {
						t.Errorf("%v, %d nodes, leaves %v, may hold %+v: %+v", kind, nodes, leaves, may, w)
					}
				}
			}
		}
	}
}
