package fence

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// heardTime bounds the question whether a host is heard. The daemon waits
// reach.Patience for an answer.
const heardTime = 500 * time.Millisecond

// askHeard asks this host's daemon of etcd whether a target answers on a network
// that both hosts share. Where nobody can say so it is unknown.
func askHeard(ctx context.Context, target string) (heard state.Fact[bool]) {
	ctx, cancel := context.WithTimeout(ctx, heardTime)
	defer cancel()
	body, err := json.Marshal(state.HeardRequest{Target: target})
	if err != nil {
		return heard
	}
	if err := keeperclient.Order(ctx, state.EtcdSocketPath, state.HeardRequestPath, body, &heard); err != nil {
		return state.Fact[bool]{}
	}
	return heard
}

// listen takes up an answer of the BMC that was asked for at asked, and finds out
// whether the host is still heard where that says Off.
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
		f.warn("fence of %s: its BMC says Off, and the host still answers on the network", f.dev.Target)
	}
	return heard
}
