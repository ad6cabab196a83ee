package vrrp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestPacketsArePassedOnToAHostThatLetAVIPGo goes through hand-overs as cp-2 sees them.
func TestPacketsArePassedOnToAHostThatLetAVIPGo(t *testing.T) {
	vip := netip.MustParseAddr("fd98::5")
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	own := state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("fd98::12/64")}
	both := []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")}
	v := state.NetworkView{Host: state.HostFacts{NodeName: "cp-2"}, Settings: state.NetworkSettings{APIVIPs: []netip.Addr{vip}}}
	has := func(yes bool) {
		if v.Addresses = []state.HostAddress{own}; yes {
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(vip, 128)})
		}
	}
	role := map[string]string{state.LabelControlPlane: "", state.LabelMaster: ""}
	says := func(holds string) {
		v.Nodes = state.Known([]state.Node{
			{Name: "cp-1", Labels: role, Addresses: both, Annotations: map[string]string{HoldsAnnotation: holds}},
			{Name: "cp-2", Addresses: both, Annotations: map[string]string{HoldsAnnotation: "fd98::5"}},
		})
	}
	var memory Relays
	for i, step := range []struct {
		what   string
		after  time.Duration
		change func()
		want   string
	}{
		{"nothing is known", 0, func() {}, "[]"},
		{"the agent starts on a holder", 0, func() { has(true); says("") }, "[]"},
		{"cp-1 takes it", time.Minute, func() { has(false); says("10.98.0.5,fd98::5") }, "[]"},
		{"cp-1 lets it go", time.Minute, func() { says("10.98.0.5") }, "[{fd98::5 fd98::11}]"},
		{"this host takes it", 200 * time.Millisecond, func() { has(true) }, "[]"},
		{"nothing new", 200 * time.Millisecond, func() {}, "[]"},
		{"cp-1 takes it back", time.Minute, func() { has(false); says("fd98::5") }, "[]"},
		{"this host takes it before it hears of cp-1", time.Minute, func() { has(true) }, "[]"},
		{"it hears of cp-1", 100 * time.Millisecond, func() { says("") }, "[{fd98::5 fd98::11}]"},
		{"cp-1 takes it back", time.Minute, func() { has(false); says("fd98::5") }, "[]"},
		{"cp-1 is lost", time.Minute, func() { has(true) }, "[]"},
		{"it comes back, and says that it holds none", 10 * time.Second, func() { says("") }, "[]"},
		{"the VIP flaps", time.Minute, func() { has(false) }, "[]"},
		{"and is here again", time.Second, func() { has(true) }, "[]"},
		{"a worker takes it", time.Minute, func() { has(false); role = nil; says("fd98::5") }, "[]"},
		{"and lets it go", time.Minute, func() { has(true); says("") }, "[]"},
		{"the clock is set back", -time.Hour, func() {}, "[]"},
	} {
		now = now.Add(step.after)
		step.change()
		var todo []Relay
		memory, todo = NextRelays(memory, v, now)
		if got := fmt.Sprint(todo); got != step.want {
			t.Errorf("step %d, %s: %s, want %s", i, step.what, got, step.want)
		}
	}
}
