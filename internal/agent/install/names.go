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

// lookupPatience bounds one question to the site's name server.
const lookupPatience = 3 * time.Second

// resolveAPI sees to it that the API's name leads somewhere on a site without
// virtual IPs. A single control plane is entered in /etc/hosts where no name
// server knows it, or where one says something else: some answer for any name, and
// the cluster would be begun at a stranger's address. With several, only the
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

// balancer reports whether an address can be that of a load balancer before
// several hosts. Name servers that refuse a name say 0.0.0.0 or 127.0.0.1.
func balancer(a netip.Addr) bool { return a.IsGlobalUnicast() }

func (r *run) unresolved(found []netip.Addr) string {
	const want = ": on platform none the site names its load balancer so"
	if len(found) == 0 {
		return "no name server of this host knows " + r.Site.APIName() + want
	}
	return fmt.Sprintf("a name server of this host says that %s is %s, where no other host can be%s", r.Site.APIName(), found[0], want)
}

// loneAddress is the address of the only control plane: given in the
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

// resolve is what the host's name servers say of the API's internal name.
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
