package vrrp_test

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A look at an interface that is down hears nothing, which says nothing of who is there.
func TestALookThatFailedFindsWhatWasKnownBefore(t *testing.T) {
	api := vrrp.Instance{Name: "api", Kind: vrrp.API, VIP: addr("10.98.0.5"), Interface: "eth0", Device: "eth0", RouterID: 231}
	ingress := vrrp.Instance{Name: "ingress", Kind: vrrp.Ingress, VIP: addr("10.97.0.6"), Interface: "eth0", Device: "eth1", RouterID: 232}
	before := vrrp.Found{
		Claims: []state.VIPClaim{{VIP: api.VIP, By: mac(98)}, {VIP: ingress.VIP, By: mac(99)}, {By: "10.98.0.97", RouterID: 231}},
		Forged: []state.ForgedAdvert{{VIP: api.VIP, As: addr("10.98.0.12"), By: mac(96)}},
	}
	for _, c := range []struct {
		name   string
		deaf   []string
		frames []vrrp.Frame
		want   vrrp.Found
	}{
		{"all is heard, and nobody is there", nil, nil, vrrp.Found{}},
		{"an interface that nobody uses", []string{"eth9"}, nil, vrrp.Found{}},
		{
			"where the adverts are is not heard",
			[]string{"eth0"},
			nil,
			vrrp.Found{Claims: []state.VIPClaim{before.Claims[0], before.Claims[2], before.Claims[1]}, Forged: before.Forged, Unheard: []vrrp.Instance{api, ingress}},
		},
		{
			"where one VIP is is not heard",
			[]string{"eth1"},
			[]vrrp.Frame{answersFor("10.98.0.5", mac(95))},
			vrrp.Found{Claims: []state.VIPClaim{{VIP: api.VIP, By: mac(95)}, before.Claims[1]}, Unheard: []vrrp.Instance{ingress}},
		},
	} {
		got := vrrp.Look(vrrp.Heard{Frames: c.frames}, state.NetworkView{}, []vrrp.Instance{api, ingress}, c.deaf, before)
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestALookNamesABoundedNumberOfStrangers: one machine can pretend to be thousands. Who keeps a VIP from this
// host, and hosts of the cluster, are named all the same.
func TestALookNamesABoundedNumberOfStrangers(t *testing.T) {
	var frames []vrrp.Frame
	for n := range 200 {
		advert := announces(netip.AddrFrom4([4]byte{10, 98, 1, byte(n)}).String(), mac(n), 231, "10.98.0.5")
		frames = append(frames, advert, answersFor("10.98.0.5", fmt.Sprintf("02:00:00:00:01:%02x", n)), advertFrom("10.98.0.12", fmt.Sprintf("02:00:00:00:02:%02x", n), 0))
	}
	frames = append(frames, answersFor("10.98.0.5", mac(31)), announces("10.98.0.31", mac(31), 231, "10.98.0.5"))
	got := vrrp.Look(heard(nil, frames...), told(), apiOnly, nil, vrrp.Found{})
	count := map[string]int{}
	for _, c := range got.Claims {
		count[fmt.Sprintf("%t %s", c.VIP.IsValid(), c.Host)]++
	}
	want := map[string]int{"true ": 16, "false ": 16, "true h31": 1, "false h31": 1}
	if !maps.Equal(count, want) || len(got.Forged) != 16 || got.More != 3*(200-16) {
		t.Errorf("%v, %d forged, %d more", count, len(got.Forged), got.More)
	}
}
