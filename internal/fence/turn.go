package fence

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// turnInterval is the time between two questions whose turn it is. turnTime
	// bounds one question: the etcd keeper answers from memory.
	turnInterval = 200 * time.Millisecond
	turnTime     = 500 * time.Millisecond
)

// askDaemon asks this host's etcd keeper whose turn it is.
func askDaemon(ctx context.Context, q state.RaceRequest) (out state.FenceRace, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return out, err
	}
	err = keeperclient.Send(ctx, state.EtcdSocketPath, state.RaceRequestPath, body, &out)
	return out, err
}

// askTurn asks whose turn it is; cut announces that the power is about to be
// cut. Without an answer the order of the hosts decides. A fence by hand takes
// no part in a race.
func (f *attempt) askTurn(ctx context.Context, cut bool) {
	if f.byHand || f.turnOf == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	turn, err := f.turnOf(ctx, state.RaceRequest{Target: f.dev.Target, Readable: !f.readable.IsZero(), Cut: cut})
	if err != nil {
		turn = state.FenceRace{Turn: state.RaceOrder, Until: f.turn.Until} // a host that gave way before still does
	}
	if turn.Turn != f.turn.Turn && turn.Turn != state.RaceOrder {
		f.warn("fence of %s: %s: %s", f.dev.Target, turns[turn.Turn], turn.Why)
	}
	f.lost = f.lost || state.Is(turn.There, false)
	f.back = f.lost && state.Is(turn.There, true)
	f.turn = turn
}

var turns = map[state.RaceTurn]string{ //nolint:exhaustive // the order is nothing to tell
	state.RaceFirst: "this host does not wait", state.RaceLast: "this host waits longer than its peer",
}

// gaveWayUntil returns the time after the begin of the fence at which giving
// way ends, zero if it does not give way.
func (f *attempt) gaveWayUntil(elapsed time.Duration) time.Duration {
	if f.turn.Until == 0 {
		return 0
	}
	_, uptime, err := f.Boot()
	if err != nil {
		return 0
	}
	return max(0, f.turn.Until-uptime+elapsed)
}

// pause waits until the next reading of the BMC, or until it is this host's
// turn.
func (f *attempt) pause(ctx context.Context, d fencing.Decision) error {
	if d.Step != fencing.Hold {
		return host.Sleep(ctx, d.Wait)
	}
	for end := time.Now().Add(d.Wait); ; {
		if f.askTurn(ctx, false); f.turn.Turn == state.RaceFirst || f.back {
			return ctx.Err()
		}
		left := time.Until(end) // a keeper that hangs has used up some of it
		if left <= 0 {
			return ctx.Err()
		}
		if err := host.Sleep(ctx, min(left, turnInterval)); err != nil {
			return err
		}
	}
}
