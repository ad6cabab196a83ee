package fence

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// heardTime bounds the question whether a host still answers. The etcd keeper
// waits reach.Patience for an answer of that host.
const heardTime = 500 * time.Millisecond

// askHeard asks this host's etcd keeper whether a target answers on a network
// that both hosts share. The answer is unknown if the keeper cannot tell.
func askHeard(ctx context.Context, target string) (heard state.Fact[bool]) {
	ctx, cancel := context.WithTimeout(ctx, heardTime)
	defer cancel()
	body, err := json.Marshal(state.HeardRequest{Target: target})
	if err != nil {
		return heard
	}
	if err := keeperclient.Send(ctx, state.EtcdSocketPath, state.HeardRequestPath, body, &heard); err != nil {
		return state.Fact[bool]{}
	}
	return heard
}

// listen notes an answer of the BMC to a question of the time asked. If it is
// Off, listen finds out whether the host still answers on the network.
func (f *attempt) listen(ctx context.Context, power redfish.PowerState, asked time.Time) state.Fact[bool] {
	if power != redfish.Off {
		f.offSince, f.offAsked = time.Time{}, time.Time{}
		return state.Fact[bool]{}
	}
	if f.offSince.IsZero() {
		f.offSince = time.Now()
	}
	f.offAsked = asked
	heard := f.hears(ctx, f.dev.Target)
	if state.Is(heard, true) && !f.warned {
		f.warned = true
		f.warn("fence of %s: its BMC says Off, but the host still answers on the network", f.dev.Target)
	}
	return heard
}
