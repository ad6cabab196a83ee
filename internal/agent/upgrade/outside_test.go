package upgrade

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestU41_NamesOutsideAnswerOnAHostIfTheSitesServersAnswer: its own server and the cluster's
// are asked what the site's tell, and a site whose servers tell nothing is no fault of the
// host's.
func TestU41_NamesOutsideAnswerOnAHostIfTheSitesServersAnswer(t *testing.T) {
	const site1, site2, own, dns = "192.0.2.53:53", "192.0.2.54:53", "192.0.2.1:53", "172.30.0.10:53"
	view := func(managed bool, upstreams ...string) func() state.NetworkView {
		v := state.NetworkView{Host: state.HostFacts{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
		v.Settings.ManagedVIPs = managed
		for _, u := range upstreams {
			v.Upstreams = append(v.Upstreams, netip.MustParseAddrPort(u))
		}
		return func() state.NetworkView { return v }
	}
	for what, c := range map[string]struct {
		view   func() state.NetworkView
		silent []string
		want   state.Fact[bool]
	}{
		"all tell":                                 {view(true, site1, site2), nil, state.Known(true)},
		"the first of the site's is silent":        {view(true, site1, site2), []string{site1}, state.Known(true)},
		"its own server fails for names outside":   {view(true, site1), []string{own}, state.Known(false)},
		"the cluster's fails for names outside":    {view(true, site1), []string{dns}, state.Known(false)},
		"the site's servers are away":              {view(true, site1, site2), []string{site1, site2, own, dns}, state.Known(true)},
		"the site has none":                        {view(true), []string{own, dns}, state.Known(true)},
		"a host without a name server of its own":  {view(false, site1), []string{own}, state.Known(true)},
		"the same, and the cluster's server fails": {view(false, site1), []string{dns}, state.Known(false)},
		"it does not know its addresses":           {func() state.NetworkView { return state.NetworkView{} }, nil, state.Fact[bool]{}},
	} {
		p := &Prover{View: c.view, DNS: netip.MustParseAddr("172.30.0.10"), Root: func(_ context.Context, server netip.AddrPort) error {
			if slices.Contains(c.silent, server.String()) {
				return errors.New("SERVFAIL")
			}
			return nil
		}}
		if got := p.outside(t.Context()); got != c.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestU41_AServerThatFailsIsNotTakenForOneThatTells, asked by the network.
func TestU41_AServerThatFailsIsNotTakenForOneThatTells(t *testing.T) {
	for _, code := range []dnsmessage.RCode{dnsmessage.RCodeSuccess, dnsmessage.RCodeServerFailure, dnsmessage.RCodeRefused} {
		tells := code == dnsmessage.RCodeSuccess
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := AskRoot(ctx, nameServer(t, code)); (err == nil) != tells {
			t.Errorf("%s: %v", code, err)
		}
		cancel()
	}
}

// nameServer answers each question for the root with a code.
func nameServer(t *testing.T, code dnsmessage.RCode) netip.AddrPort {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return // the test is over
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 || m.Questions[0].Name.String() != "." || m.Questions[0].Type != dnsmessage.TypeNS {
				continue
			}
			m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true, RCode: code}
			if m.Additionals = nil; code == dnsmessage.RCodeSuccess {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60},
					Body:   &dnsmessage.NSResource{NS: dnsmessage.MustNewName("a.root-servers.net.")},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

// TestU79_ABalancerThatDoesNotAnswerIsNoProof: it may have refused the file of its release.
func TestU79_ABalancerThatDoesNotAnswerIsNoProof(t *testing.T) {
	for what, c := range map[string]struct {
		role     state.Role
		balancer state.Fact[state.Balancer]
		want     state.Fact[bool]
	}{
		"it leads to an API server": {state.RoleMaster, state.Known(state.Balancer{Backends: map[string]bool{"a": true}}), state.Known(true)},
		"it leads to none":          {state.RoleMaster, state.Known(state.Balancer{Backends: map[string]bool{"a": false}}), state.Known(false)},
		"it does not answer":        {state.RoleMaster, state.Fact[state.Balancer]{}, state.Fact[bool]{}},
		"a host that has none":      {state.RoleWorker, state.Fact[state.Balancer]{}, state.Known(true)},
	} {
		p, _ := proves()
		v := p.View()
		v.Role, v.Balancer = c.role, c.balancer
		v.Settings.Cluster, v.Settings.ManagedVIPs, v.Settings.APIVIPs = "lab", true, []netip.Addr{netip.MustParseAddr("192.0.2.9")}
		p.View = func() state.NetworkView { return v }
		if got := p.vip(); got != c.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
