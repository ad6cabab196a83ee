package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/lab/router"
)

// heardFor is the lifetime of a router advertisement, saidEvery its interval.
const (
	heardFor  = time.Minute
	saidEvery = 5 * time.Second
)

// routers returns the routers of a lab that advertise themselves, one in each
// machine network of IPv6.
func (l Layout) routers() []router.Router {
	if !l.Spec.RouterAdvertisements {
		return nil
	}
	var out []router.Router
	for _, n := range l.machineNetworks() {
		for _, p := range n.Prefixes {
			if p.Addr().Is6() {
				out = append(out, router.Router{NIC: n.Bridge, Prefix: p, Lifetime: heardFor, Every: saidEvery})
			}
		}
	}
	return out
}

// startRouters advertises until the context ends.
func (d *daemon) startRouters(ctx context.Context) error {
	for _, r := range d.lab.Layout.routers() {
		var c *router.Conn
		err := namespace(d.lab.Layout.Switch()).do(func() (err error) {
			c, err = r.Open(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("router of the lab: %w", err)
		}
		go func() {
			if err := r.Run(ctx, c); err != nil {
				d.log.Error("router", "interface", r.NIC, "error", err)
			}
		}()
	}
	return nil
}
