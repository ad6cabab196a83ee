package install

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/hosts"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
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

// docs/facts/findings.md#installer, D6: some name servers answer for any name.
func TestAStrangersAnswerIsNotTheAPIsAddress(t *testing.T) {
	const own = "10.98.0.11"
	for _, c := range []struct {
		name    string
		said    []string
		entered bool
	}{
		{"the host's address", []string{own}, false},
		{"the host's address, written as IPv6", []string{"::ffff:" + own}, false},
		{"the host's address among others", []string{"fd98::11", own}, false},
		{"nothing", nil, true},
		{"a wildcard's", []string{"192.0.2.80"}, true},
		{"a refusal's", []string{"0.0.0.0"}, true},
	} {
		r, _ := newRun(t, state.RoleBootstrap)
		r.Site = sitetest.New(t, sitetest.OneNone)
		r.Site.Role, r.Site.Config.RendezvousIP = state.RoleBootstrap, own
		r.root, r.lookup = t.TempDir(), said(c.said...)
		if err := r.resolveAPI(t.Context()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		file, err := os.ReadFile(filepath.Join(r.root, hosts.Path))
		if got := err == nil && strings.Contains(string(file), own+" "+r.Site.APIName()); got != c.entered {
			t.Errorf("%s: entered %t: %s", c.name, got, file)
		}
	}
}

func TestSeveralHostsWaitForALoadBalancersAddress(t *testing.T) {
	for _, c := range []struct {
		said, waits string
	}{
		{"", "no name server of this host knows api-int.shop.example.test"},
		{"0.0.0.0", "resolves api-int.shop.example.test to 0.0.0.0, which cannot be another host"},
		{"127.0.0.1", "to 127.0.0.1, which cannot"},
		{"10.1.2.3", ""},
	} {
		r, log := newRun(t, state.RoleBootstrap)
		r.Site = sitetest.New(t, strings.Replace(sitetest.OneNone, "replicas: 1", "replicas: 3", 1))
		if c.said != "" {
			r.lookup = said(c.said)
		} else {
			r.lookup = said()
		}
		r.start("resolve API name")
		ctx, cancel := context.WithCancel(t.Context())
		r.publish = func([]byte) { cancel() } // it waits: that is enough
		err := r.resolveAPI(ctx)
		cancel()
		if (err == nil) != (c.waits == "") || !strings.Contains(log.String(), c.waits) {
			t.Errorf("%s: %v, log %s", c.said, err, log)
		}
	}
}

func said(addresses ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range addresses {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
}
