package reach

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/decide/reach"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pause between two rounds: calm while all is well, and alarm while
// somebody does not answer or the peer is lost. A host with a dead cable knows
// it at the latest 1.6 s after its last answer (calm, and three rounds of
// Patience with alarm between them). Corosync forms a new membership after 1.8
// s (token 1.5 s, consensus 0.3 s). With calm at 1 s the host knew it after 2.1
// s, when a fence was already under way.
const (
	calm  = 500 * time.Millisecond
	alarm = 250 * time.Millisecond
)

// Contact returns whether Corosync has the peer, and when it lost it, since
// boot.
type Contact func() (there bool, lost time.Duration)

// Watch repeats rounds until the context ends, and passes each change of this
// host's reach to changed. A round that fails changes nothing; an error that
// differs from the one before goes to failed. A value from hurry makes the next
// round begin at once.
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
