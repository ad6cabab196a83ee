package install

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/hosts"
)

// lookupPatience bounds one query to the site's name server.
const lookupPatience = 3 * time.Second

// resolveAPI makes sure that the API's name resolves on a site without VIPs. It
// enters a single control plane in /etc/hosts if no name server knows the name,
// or if one gives another address: some answer for any name, and the cluster
// would begin at a foreign host's address. With several control planes, only the
// site's load balancer can be meant.
func (r *run) resolveAPI(ctx context.Context) error {
	a, lone := r.loneAddress()
	if !lone {
		return r.poll(ctx, time.Second, func(ctx context.Context) (bool, string, error) {
			found := r.resolve(ctx)
			return slices.ContainsFunc(found, balancer), r.unresolved(found), nil
		})
	}
	if slices.Contains(r.resolve(ctx), a) {
		return nil
	}
	file, err := os.ReadFile(filepath.Join(r.root, hosts.Path))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("enter the API's name: %w", err)
	}
	text := hosts.Set(file, a, r.Site.APIName(), r.Site.ExternalAPIName())
	_, err = host.WriteFiles(r.root, []state.File{{Path: hosts.Path, Data: text}})
	return err
}

// balancer reports whether an address can be that of a load balancer in front of
// several hosts. Name servers that refuse a name answer 0.0.0.0 or 127.0.0.1.
func balancer(a netip.Addr) bool { return a.IsGlobalUnicast() }

func (r *run) unresolved(found []netip.Addr) string {
	const want = ": on platform none the site's DNS must resolve it to the load balancer"
	if len(found) == 0 {
		return "no name server of this host knows " + r.Site.APIName() + want
	}
	return fmt.Sprintf("a name server of this host resolves %s to %s, which cannot be another host%s", r.Site.APIName(), found[0], want)
}

// loneAddress returns the address of the only control plane: the one given in the
// configuration, or this host's own.
func (r *run) loneAddress() (netip.Addr, bool) {
	if a, ok := r.Site.LoneAddress(); ok {
		return a, true
	}
	if r.Site.Role == state.RoleBootstrap && r.Site.Config.ControlPlaneReplicas() == 1 {
		return r.facts.Addresses[0], true
	}
	return netip.Addr{}, false
}

// resolve returns what the host's name servers answer for the API's internal
// name.
func (r *run) resolve(ctx context.Context) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	found, err := r.lookup(ctx, r.Site.APIName())
	if err != nil {
		return nil
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}
