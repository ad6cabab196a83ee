package probe

import (
	"context"
	"net/http"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The address at which a router on the host's network reports its state.
const (
	routerAddress = "127.0.0.1:1936"
	// ControllerHeader is the header that names the IngressController of a
	// router.
	ControllerHeader  = "Ingress-Controller"
	defaultController = "default"
)

// Router asks this host's router whether it is ready, or at least serves what
// it has, and puts the answer into the view. Each host asks only itself, so the
// number of hosts does not matter.
type Router struct {
	// Address is the router's address; empty means the one on the host's own
	// network.
	Address string
}

// Name returns the name that is shown to people.
func (Router) Name() string { return "router" }

// Run repeats the question until the context ends.
func (r Router) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	client := &http.Client{Transport: oneConnection()}
	defer client.CloseIdleConnections()
	var told state.Fact[state.Router]
	var ready, healthy watched
	for ctx.Err() == nil {
		isReady, isHealthy, isDefault := r.ask(ctx, client)
		if ctx.Err() != nil {
			break
		}
		ready, healthy = ready.next(isReady), healthy.next(isHealthy)
		if !told.Known && healthy.undecided() {
			pause(ctx, true)
			continue
		}
		now := state.Router{Ready: ready.well, Healthy: healthy.well}
		now.Default = now.Healthy && (isDefault || isHealthy != good && told.Value.Default)
		if fact := state.Known(now); fact != told {
			told = fact
			update(func(v *state.NetworkView) { v.Router = fact })
		}
		pause(ctx, ready.soon || healthy.soon)
	}
	return nil
}

// ask asks whether the router is ready, and only if it is not, whether it is
// healthy: a ready router is healthy.
func (r Router) ask(ctx context.Context, client *http.Client) (ready, healthy verdict, isDefault bool) {
	base := "http://" + routerAddress
	if r.Address != "" {
		base = "http://" + r.Address
	}
	header, ready := get(ctx, client, base+"/healthz/ready")
	healthy = ready
	if ready == bad {
		header, healthy = get(ctx, client, base+"/healthz")
	}
	return ready, healthy, header.Get(ControllerHeader) == defaultController
}
