package vrrp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAVIPThatLeavesLingersWhileItsServerWorks goes through the life of the VIPs of
// one host.
func TestAVIPThatLeavesLingersWhileItsServerWorks(t *testing.T) {
	api, ingress := netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.98.0.6")
	var memory Lingering
	v := state.NetworkView{Settings: state.NetworkSettings{APIVIPs: []netip.Addr{api}, IngressVIPs: []netip.Addr{ingress}}}
	own := state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}
	has := func(vips ...netip.Addr) {
		v.Addresses = []state.HostAddress{own}
		for _, a := range vips {
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(a, 32)})
		}
	}
	router := func(healthy bool) { v.Router = state.Known(state.Router{Healthy: healthy}) }
	balancer := func(live bool) { v.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"cp-1": live}}) }
	for i, step := range []struct {
		what   string
		change func()
		want   string
	}{
		{"nothing is known", func() {}, ""},
		{"it holds none", func() { has(); router(true); balancer(true) }, ""},
		{"it holds both", func() { has(api, ingress) }, "10.98.0.5 1m30s, 10.98.0.6 1m30s"},
		{"the kernel was not asked for a moment", func() { v.Addresses = nil }, ""},
		{"the router drains and the VIP has left", func() { has(api) }, "10.98.0.5 1m30s, 10.98.0.6 15s"},
		{"nothing new", func() {}, "10.98.0.5 1m30s"},
		{"the router is gone", func() { router(false) }, "10.98.0.5 1m30s, 10.98.0.6 0s"},
		{"nothing new", func() {}, "10.98.0.5 1m30s"},
		{"the API VIP has left with haproxy", func() { has(); v.Balancer = state.Fact[state.Balancer]{} }, "10.98.0.5 0s"},
		{"haproxy is back", func() { balancer(true) }, ""},
		{"so is the VIP", func() { has(api) }, "10.98.0.5 1m30s"},
		{"no API server lives, and it leaves", func() { has(); balancer(false) }, "10.98.0.5 0s"},
		{"it comes again", func() { has(api); balancer(true) }, "10.98.0.5 1m30s"},
		{"it leaves", func() { has() }, "10.98.0.5 15s"},
		{"and comes back meanwhile", func() { has(api) }, "10.98.0.5 1m30s"},
		{"the site takes another VIP, and keepalived lets it go", func() { v.Settings.APIVIPs = nil; has() }, "10.98.0.5 15s"},
	} {
		step.change()
		after, todo := Lingers(memory, v)
		memory = after
		var got []string
		for _, l := range todo {
			got = append(got, fmt.Sprint(l.VIP, " ", l.For))
		}
		if s := strings.Join(got, ", "); s != step.want {
			t.Errorf("step %d, %s: %q, want %q", i, step.what, s, step.want)
		}
	}
}
