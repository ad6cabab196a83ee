package install

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/render/hosts"
	"github.com/holdfast/holdfast/internal/state"
)

// lookupPatience bounds one question to the site's name server.
const lookupPatience = 3 * time.Second

// resolveAPI sees to it that the API's name leads somewhere on a site without
// virtual IPs. A single control plane is entered in /etc/hosts where no name
// server knows it; with several, only the site's load balancer can be meant.
func (r *run) resolveAPI(ctx context.Context) error {
	a, lone := r.loneAddress()
	if !lone {
		return r.poll(ctx, time.Second, func(ctx context.Context) (bool, string, error) {
			return r.resolves(ctx), "no name server of this host knows " + r.Site.APIName() +
				": on platform none the site names its load balancer so", nil
		})
	}
	if r.resolves(ctx) {
		return nil
	}
	file, err := os.ReadFile(hosts.Path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("enter the API's name: %w", err)
	}
	text := hosts.Set(file, a, r.Site.APIName(), r.Site.ExternalAPIName())
	_, err = host.WriteFiles("/", []state.File{{Path: hosts.Path, Data: text}})
	return err
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

func (r *run) resolves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", r.Site.APIName())
	return err == nil && len(found) > 0
}
