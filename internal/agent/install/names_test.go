package install

import (
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
)

func TestWhichAddressTheAPIsNameMayMean(t *testing.T) {
	own := netip.MustParseAddr("10.98.0.12")
	for _, c := range []struct {
		name         string
		config       string
		rendezvousIP string
		role         state.Role
		want         string
	}{
		{"the address that was given", sitetest.OneNone, "10.98.0.11", state.RoleWorker, "10.98.0.11"},
		{"the first host's own", sitetest.OneNone, "", state.RoleBootstrap, "10.98.0.12"},
		{"a worker cannot guess", sitetest.OneNone, "", state.RoleWorker, ""},
		{"several hosts have a load balancer", sitetest.TwoDual, "10.98.0.11", state.RoleBootstrap, ""},
	} {
		r, _ := newRun(t, c.role)
		r.Site = sitetest.New(t, c.config)
		r.Site.Role, r.Site.Config.RendezvousIP = c.role, c.rendezvousIP
		r.facts.Addresses = []netip.Addr{own}
		got, ok := r.loneAddress()
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s: got %s, %t", c.name, got, ok)
		}
	}
}

func TestASiteWithoutVIPsResolvesItsAPIFirst(t *testing.T) {
	for config, want := range map[string]bool{sitetest.OneNone: true, sitetest.TwoDual: false} {
		r, _ := newRun(t, state.RoleWorker)
		r.Site = sitetest.New(t, config)
		got := false
		for _, s := range r.steps() {
			got = got || s.name == "resolve API name" && s.always
		}
		if got != want {
			t.Errorf("%s: %t", r.Site.Domain(), got)
		}
	}
}
