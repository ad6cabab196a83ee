package reach

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/decide/reach"
	"github.com/holdfast/holdfast/internal/model/state"
)

// How often neighbours are asked: while all is well, and while somebody does
// not answer or the peer is lost. A host whose cable is dead knows so 1.6 s after
// its last answer at the latest (calm, and three rounds of Patience with alarm
// between). Corosync forms a new membership after 1.8 s (token 1.5 s, consensus
// 0.3 s). With calm at 1 s it knew after 2.1 s, and a fence was under way.
const (
	calm  = 500 * time.Millisecond
	alarm = 250 * time.Millisecond
)

// Contact is whether Corosync has the peer, and when it lost it, since boot.
type Contact func() (there bool, lost time.Duration)

// Watch asks until the context ends, and tells each change of what a host knows
// of its own reach. A round that fails changes nothing; the first failure of
// its kind is told to failed. A value from hurry makes the next round come at
// once.
func Watch(ctx context.Context, p *Prober, contact Contact, hurry <-chan struct{}, changed func(state.Reach), failed func(error)) error {
	var now state.Reach
	var trouble string
	for {
		signal, neighbours, err := p.Round(ctx)
		there, lost := contact()
		pause := alarm
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if err.Error() != trouble {
				failed(err)
			}
			trouble, pause = err.Error(), calm
		default:
			trouble = ""
			next := reach.Judge(now, reach.Evidence{Now: p.Uptime(), Signal: signal, Contact: there, Lost: lost, Neighbours: neighbours})
			if next != now {
				now = next
				changed(now)
			}
			if there && now.State != state.ReachNo && allWell(neighbours) {
				pause = calm
			}
		}
		if err := sleep(ctx, pause, hurry); err != nil {
			return err
		}
	}
}

func allWell(list []reach.Neighbour) bool {
	for _, n := range list {
		if n.Missed > 0 && n.Missed <= reach.Missed {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, pause time.Duration, hurry <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-hurry:
	case <-timer.C:
	}
	return nil
}
