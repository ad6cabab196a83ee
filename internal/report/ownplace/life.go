package ownplace

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/decide/life"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Succeeded asks whether the site of this host was restored and serves without it, and returns what
// decide/life says. It asks all at once, and needs no API. An address of this host is not asked: it
// would answer itself, or nobody.
func Succeeded(ctx context.Context, of *site.Site, name string) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return life.Succeeded(of.Life, lives(ctx, of, elsewhere(known(of, name))))
}

// known returns the addresses at which control planes of the site answer, as far as this host's disk
// says.
func known(of *site.Site, name string) []netip.Addr {
	out := of.Config.APIVIPs()
	if now, err := settings.Load(of, settings.Path); err == nil {
		out = append(out, now.APIVIPs...)
	}
	nodes, _ := host.ReadState[[]state.Node](state.NodesPath) // Corosync may know more
	for _, n := range nodes {
		if n.ControlPlane() && n.Name != name {
			out = append(out, n.Addresses...)
		}
	}
	for _, n := range others(name) {
		for _, a := range n.Addresses {
			if at, err := netip.ParseAddr(a); err == nil {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// elsewhere leaves out the addresses of this host itself, as far as they are known.
func elsewhere(addresses []netip.Addr) []netip.Addr {
	if out, err := host.Elsewhere(addresses); err == nil {
		return out
	}
	return addresses
}

// lives asks each address for the life of the site. Who does not answer in time, has another
// authority or runs a build that knows of no lives says nothing.
func lives(ctx context.Context, of *site.Site, at []netip.Addr) []state.Life {
	heard := make([]*state.Life, len(at))
	var all sync.WaitGroup
	for i, a := range at {
		all.Go(func() {
			c := &configserver.Client{
				Addresses: []string{site.HostPort(a.String(), site.ConfigServerPort)}, ServerName: of.APIName(), CA: of.Identity.ConfigCA.Cert,
			}
			defer c.Close()
			if l, knows, err := c.Life(ctx); err == nil && knows {
				heard[i] = &l
			}
		})
	}
	all.Wait()
	var out []state.Life
	for _, l := range heard {
		if l != nil {
			out = append(out, *l)
		}
	}
	return out
}
