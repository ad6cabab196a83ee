package vrrp_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestU78_AHostThatJustSwitchedAsksForNoVIPMoreThanItsHolder: two that ask equally leave a
// virtual IP where it is, so one that shows itself, with a new release, takes none from a
// host that lacks nothing.
func TestU78_AHostThatJustSwitchedAsksForNoVIPMoreThanItsHolder(t *testing.T) {
	holder := weight(healthy(12))
	facts := []state.Fact[bool]{{}, state.Known(false), state.Known(true)}
	balancers := []state.Fact[state.Balancer]{{}, live(), live("h12"), live("h11", "h12", "h13")}
	for _, before := range []state.Fact[int]{{}, state.Known(vrrp.Fault), state.Known(0), state.Known(25)} {
		for _, local := range facts {
			for _, balancer := range balancers {
				for _, redirected := range []bool{true, false} {
					v := healthy(11)
					v.LocalAPI, v.Balancer, v.Redirected = local, balancer, redirected
					h, _ := vrrp.Follow(vrrp.Health{}, v, false, epoch)
					if got := vrrp.APIWeight(v, h, before); got.Value > holder.Value {
						t.Errorf("before %+v, server %+v, balancer %+v: %+v, the holder has %+v", before, local, balancer, got, holder)
					}
				}
			}
		}
	}
	v := healthy(11) // it was emptied before its switch, so it has no router
	v.Router = state.Known(state.Router{})
	if got := vrrp.IngressWeight(v, state.Known(vrrp.Fault)); got.Value != vrrp.Fault {
		t.Errorf("without a router: %+v", got)
	}
}
