package install

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// A host has another name at its start than the one for which it waits. kubeadm joins by the later one.
func TestAHostJoinsAndReportsByTheNameThatItWaitedFor(t *testing.T) {
	for _, before := range []string{"localhost", "cp-2.example.test", "cp-2"} {
		c := serveSite(t, state.RoleMaster)
		r, _ := newRun(t, state.RoleMaster)
		r.p.Host = before
		r.server = c.host(t, before, t.TempDir())
		r.look = func([]netip.Prefix, []netip.Addr) (state.HostFacts, error) {
			return state.HostFacts{NodeName: "cp-2", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.12")}}, nil
		}
		r.start("find own addresses")
		if err := r.findAddresses(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.server.report(t.Context(), r.encoded()); err != nil {
			t.Errorf("%s: %v", before, err)
		}
		if all, err := c.store.All(); err != nil || len(all) != 1 || all[0].Host != "cp-2" {
			t.Errorf("%s: the server knows %+v, %v", before, all, err)
		}
		if r.fromFile(t).Host != "cp-2" {
			t.Errorf("%s: the host's own file says %s", before, r.fromFile(t).Host)
		}
		own, err := r.server.token(t.Context())
		if err != nil || own.Host != "cp-2" {
			t.Errorf("%s: the token is of %s, %v", before, own.Host, err)
		}
	}
}

func TestANameThatCannotBeFencedIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newRun(t, state.RoleMaster)
		s, err := newServer(sitetest.New(t, sitetest.TwoDual), "localhost", filepath.Join(t.TempDir(), "own"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r.server = s
		names := []string{"", "cp-2.example.test", "cp-2"}
		r.look = func([]netip.Prefix, []netip.Addr) (state.HostFacts, error) {
			name := names[0]
			names = names[1:]
			if name == "" {
				return state.HostFacts{}, errors.New("this host has no name yet")
			}
			return state.HostFacts{NodeName: name}, nil
		}
		r.start("find own addresses")
		if err := r.findAddresses(context.Background()); err != nil || len(names) > 0 || s.host != "cp-2" || r.p.Host != "cp-2" {
			t.Errorf("%v, %v left, asks as %s, reports as %s", err, names, s.host, r.p.Host)
		}
	})
}
