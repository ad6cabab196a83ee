package vrrp_test

import (
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
