package upgrade

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/state"
)

// How long one name server may take, and all of the site's together. Our own ask the
// site's, of which the first may be silent.
const (
	siteServer  = time.Second
	siteServers = 3 * time.Second
	ownServer   = 3 * time.Second
)

// outside: if a name server of the site tells of the root of all names, so do this host's own
// and the cluster's, which ask it. Where none of the site's does, the host has nothing to be
// compared with: the site has no names outside, or its servers are away.
func (p *Prover) outside(ctx context.Context) state.Fact[bool] {
	v := p.View()
	s, has := names.DecideServer(v)
	if !has {
		return state.Fact[bool]{} // it does not know its addresses yet
	}
	if !p.siteTells(ctx, s.Upstreams) {
		return state.Known(true)
	}
	ours := []netip.AddrPort{netip.AddrPortFrom(p.DNS, dnsPort)}
	if names.Ours(v) {
		ours = append(ours, netip.AddrPortFrom(s.Listen[0], dnsPort))
	}
	return state.Known(!slices.ContainsFunc(ours, func(server netip.AddrPort) bool { return !p.tells(ctx, server, ownServer) }))
}

const dnsPort = 53

// siteTells asks the site's name servers, one after the other.
func (p *Prover) siteTells(ctx context.Context, servers []netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, siteServers)
	defer cancel()
	return slices.ContainsFunc(servers, func(server netip.AddrPort) bool { return p.tells(ctx, server, siteServer) })
}

func (p *Prover) tells(ctx context.Context, server netip.AddrPort, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return p.Root(ctx, server) == nil
}

// AskRoot asks a name server who serves the root of all names: every server knows that or
// asks for it, so no name has to be configured for it.
func AskRoot(ctx context.Context, server netip.AddrPort) error {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.String())
	}}
	_, err := r.LookupNS(ctx, ".")
	return err
}
