package keeper

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Timing of the question whether the peer gives way, while it is lost: often
// soon after the loss, when a race may be on, and rarely later.
const (
	askSoon   = 200 * time.Millisecond
	askLater  = 5 * time.Second
	soonUntil = 30 * time.Second
)

// race is this host's part in a race of two hosts that may fence each other. It
// answers this host's fence agent and the peer's daemon.
type race struct {
	uptime func() time.Duration
	// ask asks the peer over every network that joins the hosts. back tells it
	// that it is there again, and that no promise is wanted.
	ask func(ctx context.Context, back bool) (state.RaceAnswer, error)
	log *slog.Logger
	// peer is the other host; answers asks it at some addresses whether it is
	// there.
	peer    string
	answers func(ctx context.Context, addresses []netip.Addr, hardware []string) (state.Fact[bool], error)
	// fenced returns when the peer was last proven to be off, as time since
	// this host's boot; zero for never.
	fenced func() time.Duration
	// promised is called for each promise of the peer.
	promised func()
	// behind reports whether this host's data may lack acknowledged writes.
	behind func() bool

	mu   sync.Mutex
	side fencerace.Side
	// addresses are those at which the peer may be asked.
	addresses []netip.Addr
	// hardware holds the hardware addresses that the peer tells. kernel is the one at
	// which the kernel reaches the peer on the machine network; confirmed is true once
	// that was one of those.
	hardware  []string
	kernel    net.HardwareAddr
	confirmed bool
	known     bool          // Corosync has reported at least once whether it has the peer
	there     bool          // Corosync has the peer
	met       time.Duration // when Corosync found it, zero for never
	// boot is the boot of the peer's newest statement since then, and lostBoot
	// is its value when the peer was lost; empty if there was no statement.
	boot, lostBoot string
	// unanswered is true once a question got no answer since the peer was lost;
	// that is logged once.
	unanswered bool
	turn       state.RaceTurn
	wake       chan struct{} // the peer was lost or is back: ask it
	hurry      chan struct{} // for the same events: ask the neighbours
}

func newRace(second bool, uptime func() time.Duration, log *slog.Logger) *race {
	return &race{
		uptime: uptime, log: log, side: fencerace.Side{Second: second}, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		fenced: func() time.Duration { return 0 }, promised: func() {}, behind: func() bool { return false },
	}
}

// setReach takes what this host knows of its own reach.
func (r *race) setReach(reach state.Reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.side.Reach
	r.side.Reach = reach
	if before.State != reach.State || before.Why != reach.Why {
		r.log.Info("reach", "state", orUnknown(reach.State), "why", reach.Why)
	}
}

func orUnknown(s state.ReachState) string {
	if s == state.ReachUnknown {
		return "unknown"
	}
	return string(s)
}

// setMembership notes whether the peer is there. Its loss begins a cut. Its
// return ends everything that was said in the cut before, except promises.
func (r *race) setMembership(m state.Fact[state.Membership], peer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = r.known || m.Known
	if !m.Known || peer == r.there {
		return
	}
	r.there, r.unanswered = peer, false
	r.side = fencerace.Back(r.side, r.fenced())
	if peer {
		r.met = r.uptime()
	} else {
		r.side.Lost, r.lostBoot = r.uptime(), r.boot
	}
	r.boot = ""
	for _, c := range []chan struct{}{r.wake, r.hurry} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// contact returns whether the peer is there and when it was lost. The evidence
// of reach is judged by both.
func (r *race) contact() (there bool, lost time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.there, r.side.Lost
}

// reach returns what this host knows of its own reach.
func (r *race) reach() state.Reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.side.Reach
}

// decide answers the fence agent; report holds what this host sees.
func (r *race) decide(q state.RaceRequest, report state.EtcdReport) state.FenceRace {
	lags := r.behind()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.uptime()
	if q.Readable && r.side.Begun == 0 {
		r.side.Begun = now
	}
	r.side.Behind = lags
	side := r.side
	side.Fault = etcdmember.Fault(report.Snapshot)
	var turn state.FenceRace
	if q.Cut {
		turn, side = fencerace.Cut(side, now)
	} else {
		side = fencerace.Look(side, now)
		turn = fencerace.Turn(side, now)
	}
	r.side, r.side.Fault = side, ""
	if turn.Turn != r.turn {
		r.log.Info("race to fence", "host", q.Target, "turn", turn.Turn, "why", turn.Why)
	}
	r.turn = turn.Turn
	if r.known && (!r.there || now-r.met >= settled && r.boot != "" && r.boot == r.lostBoot) {
		turn.There = state.Known(r.there)
	}
	return turn
}

// behind reports whether this host's data may lack acknowledged writes. A record that cannot
// be read says nothing.
func behind(report state.EtcdReport) bool {
	r := report.Snapshot.Record
	return r.Known && r.Value.State.Behind()
}

// spoke takes the boot of the peer's newest statement. A peer that was reset is
// there again too, but is fenced nevertheless: only a fence proves that what it
// ran is over.
func (r *race) spoke(boot string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.there {
		r.boot = boot
	}
}

// settled is the time for which a peer has to be there to count as back: a link
// that flaps brings it back for a second.
const settled = 2 * time.Second

// answer returns what this host tells its peer. A peer that is back wants to
// know which promise this host holds, and asks for none.
func (r *race) answer(back bool) state.RaceAnswer {
	lags := r.behind()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.side.Behind = lags
	if back {
		return state.RaceAnswer{Reach: r.side.Reach, Free: r.there && fencerace.Free(r.side, r.uptime())}
	}
	var out state.RaceAnswer
	kept := r.side.Kept
	out, r.side = fencerace.Answer(r.side, r.uptime())
	if kept == 0 && r.side.Kept != 0 {
		r.log.Info("race: this host yields to the peer", "why", r.side.Reach.Why, "behind", lags)
	}
	return out
}

// given reports whether the peer is lost and gives way to this host.
func (r *race) given() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.there && r.side.Given >= r.uptime()+fencerace.Enough
}

// gives reports whether this host still gives way.
func (r *race) gives() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.side.Kept > r.uptime()
}

// listen asks the peer while it is lost, or while this host still gives way to
// a peer that is back, until the context ends. A peer that is off does not
// answer, which does no harm: nothing waits for it.
func (r *race) listen(ctx context.Context) error {
	for {
		there, lost := r.contact()
		pause := askLater
		switch {
		case there && r.gives():
			r.askBack(ctx)
		case lost != 0: // a peer that is there is not lost
			r.askOnce(ctx)
			if r.uptime()-lost < soonUntil {
				pause = askSoon
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (r *race) askOnce(ctx context.Context) {
	sent := r.uptime() // a promise counts from the time of the question
	a, err := r.ask(ctx, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.there:
		return
	case err != nil:
		if !r.unanswered && ctx.Err() == nil {
			r.log.Warn("race: no answer from the peer whether it yields", "err", err)
		}
		r.unanswered = true
		return
	}
	if a.GivesWay > 0 && r.side.Given == 0 {
		r.log.Info("race: the peer yields", "why", a.Reach.Why)
	}
	if a.GivesWay > 0 {
		r.side.Given = sent + a.GivesWay
		r.promised()
	}
}

// heard reports whether the peer answers on a network that joins the hosts.
func (r *race) heard(ctx context.Context) state.Fact[bool] {
	answers, err := r.answers(ctx, r.peerAt(), r.own())
	if err != nil {
		r.log.Warn("cannot determine whether the peer still answers on the network", "err", err)
		return state.Fact[bool]{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fencerace.Heard(r.side, answers)
}

// heardOf answers this host's fence agent when the BMC of its target says Off.
func (d *daemon) heardOf(w http.ResponseWriter, q *http.Request) {
	var request state.HeardRequest
	if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r := d.race.Load()
	if r == nil || request.Target != r.peer {
		reply(w, state.Fact[bool]{})
		return
	}
	reply(w, r.heard(q.Context()))
}

// askBack asks a peer that is back whether it still holds a promise of this host.
func (r *race) askBack(ctx context.Context) {
	sent := r.uptime()
	a, err := r.ask(ctx, true)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.there || r.side.Kept <= sent {
		return
	}
	if r.side = fencerace.Release(r.side, a, sent); r.side.Kept == 0 {
		r.log.Info("race: the peer is back: this host stops yielding")
	}
}

// raceOf answers this host's fence agent.
func (d *daemon) raceOf(w http.ResponseWriter, q *http.Request) {
	var request state.RaceRequest
	if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r := d.race.Load()
	if r == nil {
		reply(w, state.FenceRace{Turn: state.RaceOrder})
		return
	}
	reply(w, r.decide(request, d.report()))
}
