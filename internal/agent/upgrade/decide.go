package upgrade

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// gather returns what a decision about a journal needs.
type gather func(ctx context.Context, j parachute.Journal) (parachute.Facts, error)

// rounds is how often facts are gathered for one decision. Each time another program has decided
// meanwhile.
const rounds = 3

// errMoved says that another program has decided, or has switched, since the facts were gathered.
var errMoved = errors.New("the way of this host went on meanwhile")

// decide reads the journal, decides, and makes the journal durable before anybody acts.
// A program that may not take that action gets a rest. It returns the journal of
// before. Facts are gathered before the lock is taken: whoever hangs in that keeps nobody else
// from the journal.
func (h Host) decide(ctx context.Context, clock func() time.Time, facts gather, may func(parachute.Journal, parachute.Action) bool) (parachute.Journal, parachute.Action, error) {
	for range rounds {
		at, err := h.reading()
		if err != nil {
			return at.j, parachute.Action{}, err
		}
		now := clock().UTC().Round(0) // after each reading: a clock that was behind the journal went back
		f, err := facts(ctx, at.j)
		if err != nil {
			return at.j, parachute.Action{}, err
		}
		if f.Unreadable = at.torn; at.torn {
			f.Kept = h.Kept(f.Previous)
		}
		if a, err := h.commit(at, f, now, may); !errors.Is(err, errMoved) {
			return at.j, a, err
		}
	}
	return parachute.Journal{}, parachute.Action{}, ErrBusy
}

// commit decides and writes, if the journal and the switch still are as the facts have them.
func (h Host) commit(at reading, f parachute.Facts, now time.Time, may func(parachute.Journal, parachute.Action) bool) (parachute.Action, error) {
	unlock, err := h.Journal.Lock()
	if err != nil {
		return parachute.Action{}, err
	}
	defer unlock()
	is, err := h.reading()
	if err != nil {
		return parachute.Action{}, err
	}
	running, err := h.Running()
	if err != nil {
		return parachute.Action{}, fmt.Errorf("which release runs: %w", err)
	}
	if !reflect.DeepEqual(at, is) || running != f.Running {
		return parachute.Action{}, errMoved
	}
	a := parachute.Next(at.j, f, now)
	if !may(at.j, a) {
		return parachute.Action{Act: parachute.Rest, Journal: at.j, Held: a.Held}, nil
	}
	if reflect.DeepEqual(at.j, a.Journal) && !at.torn {
		return a, nil
	}
	return a, h.Journal.Write(a.Journal, at.number+1)
}

// reading is a journal as it was read. It is empty where both of its files are torn.
type reading struct {
	j      parachute.Journal
	number int
	torn   bool
}

func (h Host) reading() (reading, error) {
	j, number, err := h.Journal.Read()
	if errors.Is(err, parachute.ErrUnreadable) {
		return reading{torn: true}, nil
	}
	return reading{j: j, number: number}, err
}

// common gathers what the agent and the parachute both know of this host. taken is true if an administrator takes
// the host back.
func (h Host) common(ctx context.Context, j parachute.Journal, kind parachute.Kind, releases Releases, taken bool) (f parachute.Facts, err error) {
	f.Kind = kind
	if f.Boot, f.Up, err = h.Boot(); err != nil {
		return f, fmt.Errorf("which boot this is: %w", err)
	}
	if f.Running, err = h.Running(); err != nil {
		return f, fmt.Errorf("which release runs: %w", err)
	}
	if f.Previous, err = h.Previous(); err != nil {
		return f, fmt.Errorf("which release was before: %w", err)
	}
	f.Daemons = true
	if !j.Step.AtRest() || h.Journal.Down() {
		if f.Daemons, err = h.Daemons(ctx, f.Running); err != nil {
			return f, fmt.Errorf("which daemons run: %w", err)
		}
	}
	if f.Watchdog, err = h.Hangs(); err != nil {
		return f, fmt.Errorf("how often the agent hung: %w", err)
	}
	old := j.From
	if old == "" {
		old = f.Previous
	}
	f.Whole = whole(ctx, releases, old, j.Step.Trying() || j.Step == parachute.Returning || j.Step == parachute.Accepted && taken)
	f.Newer = h.Newer(old, f.Running)
	return f, nil
}

// serving gathers who serves. It comes last: whoever goes away while other facts are gathered is known
// to be away.
func (h Host) serving(ctx context.Context, f *parachute.Facts, step parachute.Step) {
	kind := f.Kind
	if kind != parachute.Worker {
		f.Serves = h.Serves(ctx)
	}
	f.PeerServes = h.PeerServes(ctx)
	if kind == parachute.OfMore {
		f.Spare, f.Few = h.Spare(ctx)
	}
	f.PeerGone = kind == parachute.OfTwo && h.PeerGone()
	if kind == parachute.OfTwo && (step == parachute.Prepare || step == parachute.Returning || step.Trying()) {
		f.Apart = h.Apart(ctx)
	}
}

// whole tells whether a release lies here whole. Where a host returns, or may have to, a containerd
// that does not answer is perhaps the fault for which it does. Then files and programs have to do:
// its images were compared before the host got its turn, and since then they are pinned, so kubelet
// removes none.
func whole(ctx context.Context, releases Releases, digest string, returns bool) state.Fact[bool] {
	if list := releases.Whole(ctx); list.Known {
		return state.Known(slices.Contains(list.Value, digest))
	}
	if returns {
		return state.Known(releases.Placed(digest))
	}
	return state.Fact[bool]{}
}

// calm is for how long other control planes have to be known to serve before a host begins its
// second and last attempt. After a cut of a minute a site of two on two busy cores answered
// slowly for some twenty seconds, and the attempt that began in them was undone (lab,
// 2026-11-27).
const calm = time.Minute

// brief is how long no other control plane may be known to serve without breaking that calm: on
// busy cores single answers are late again and again, and a host would wait for ever.
const brief = 10 * time.Second

// away notes whether another control plane is known to serve. It returns for how long none has been,
// and whether one is so for less than calm.
func (a *Agent) away(serves bool) (away time.Duration, back bool) {
	now := a.Now()
	switch {
	case serves:
		a.missing = time.Time{}
		return 0, !a.missed.IsZero() && now.Sub(a.missed) < calm
	case a.missing.IsZero():
		a.missing = now
	}
	away = now.Sub(a.missing)
	if away >= brief {
		a.missed = now
	}
	return away, true
}

// facts returns what the agent decides from.
func (a *Agent) facts(turn state.Fact[annotation.Turn]) gather {
	return func(ctx context.Context, j parachute.Journal) (parachute.Facts, error) {
		f, err := a.common(ctx, j, a.Kind, a.Releases, turn.Value.Wish == parachute.GoBack)
		if err != nil {
			return f, err
		}
		if turn.Known {
			f.Turn, f.Closed = state.Known(turn.Value.Of()), state.Known(turn.Value.Closed)
		}
		switch j.Step {
		case parachute.Prepare:
			var gave bool
			gave, err = a.gaveAway(ctx)
			f.Released, f.Trial = gave && a.emptied(j), a.trial(j, gave)
		case parachute.Leave:
			f.Quiet, err = a.Quiet(ctx)
		case parachute.Armed:
			f.Timer, err = a.Armed(ctx, j.From)
		case parachute.Proving, parachute.Started, parachute.Returning:
			proof := a.Prove(ctx, f.Running)
			f.Proof, a.shown = proof.Twice(a.shown), proof
		case parachute.None, parachute.Accepted, parachute.Returned:
			if f.Daemons {
				err = a.Journal.SetDown(false)
			}
			f.Emptied = a.emptied(j)
			if turn.Value.Raise && err == nil {
				f.Risen = a.risen(ctx)
				f.Held, err = a.holds()
			}
		case parachute.Switched:
		}
		a.serving(ctx, &f, j.Step)
		if a.Kind != parachute.Alone { // it has no peer that could come back
			f.PeerAway, f.PeerBack = a.away(state.Is(f.PeerServes, true))
		}
		return f, err
	}
}
