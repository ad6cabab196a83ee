package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Parachute is the way back of a host, as a program of the release to which the host
// returns. A timer and each boot run it while the host is on a way. It never goes
// forward.
type Parachute struct {
	Host
	Kind     parachute.Kind
	Now      func() time.Time
	Releases Releases
	// StopAgent ends the agent of the new release, which may do something else at
	// the same moment. SwitchBack has the one link lead to the old release.
	StopAgent, SwitchBack func(ctx context.Context) error
	// Turn asks the API server of this host what the cluster wants of it. It is asked where a
	// person alone can take the host back.
	Turn func(ctx context.Context) state.Fact[parachute.Turn]
	// Event takes in that the host goes back and why, for reports of incidents: the agent
	// that would tell it ends on the way.
	Event func(state.Event)
}

// Run makes one decision and carries it out. It says what it did, empty for nothing.
func (p Parachute) Run(ctx context.Context) (string, error) {
	before, a, err := p.decide(ctx, p.Now, p.facts, back)
	if errors.Is(err, ErrBusy) {
		return p.barred(ctx)
	}
	if err != nil {
		return "", err
	}
	return p.act(ctx, before, a)
}

// barred lets whoever has the journal decide: the timer comes again. Where nobody has decided for long,
// the agent hangs with it, and ends.
func (p Parachute) barred(ctx context.Context) (string, error) {
	j, _, unread := p.Journal.Read()
	_, up, err := p.Boot()
	if err := errors.Join(unread, err); err != nil || !parachute.Barred(j, up, p.Now()) {
		return ErrBusy.Error(), err
	}
	before, a, err := p.decide(ctx, p.Now, p.facts, back) // perhaps that was one moment
	said := ""
	if errors.Is(err, ErrBusy) {
		said = "the agent has kept the journal of the upgrade for long, and is ended"
		if err := p.StopAgent(ctx); err != nil {
			return said, err
		}
		before, a, err = p.decide(ctx, p.Now, p.facts, back)
	}
	if err != nil && said != "" {
		return said, errors.Join(err, p.Start(ctx))
	}
	if err != nil {
		return "", err
	}
	did, err := p.act(ctx, before, a)
	if said != "" && a.Act != parachute.SwitchBack {
		err = errors.Join(err, p.Start(ctx)) // the agent, which goes on
	}
	return strings.Join(slices.DeleteFunc([]string{said, did}, func(s string) bool { return s == "" }), "; "), err
}

// facts are what the parachute knows. It asks the cluster only where an administrator alone can take
// the host back, since the agent that should have heard of that may never run.
func (p Parachute) facts(ctx context.Context, j parachute.Journal) (parachute.Facts, error) {
	f, err := p.common(ctx, j, p.Kind, p.Releases, false)
	p.serving(ctx, &f, j.Step)
	if err == nil && parachute.Unheard(j, f, p.Now()) {
		if turn := p.Turn(ctx); turn.Known && turn.Value.Wish == parachute.GoBack {
			f.Turn = turn
		}
	}
	return f, err
}

// act carries an action out.
func (p Parachute) act(ctx context.Context, before parachute.Journal, a parachute.Action) (string, error) {
	switch a.Act {
	case parachute.SwitchBack:
		return "goes back: " + a.Why, p.goBack(ctx, a.Journal)
	case parachute.Undo:
		return "stays on the old release: " + a.Why, errors.Join(p.Start(ctx), p.Disarm(ctx))
	case parachute.Hold:
		return a.Why, nil
	default:
	}
	if before.Step.AtRest() {
		return "", p.Disarm(ctx) // its way has ended, and somebody was cut off before this
	}
	if a.Act == parachute.Prove { // it has noted something
		return a.Why, nil
	}
	return a.Held, nil
}

// back reports whether a decision is one of the way back. It counts boots too, and
// notes a switch that a power cut hid: without both it could not go back. And it notes when the
// host was without its peer, which the agent may have missed.
func back(j parachute.Journal, a parachute.Action) bool {
	switch a.Act {
	case parachute.SwitchBack, parachute.Hold:
		return !j.Step.AtRest() || a.Journal.Step != j.Step
	case parachute.Undo:
		return !j.Step.AtRest()
	case parachute.Start:
		return j.Step == parachute.Armed && a.Journal.Step == parachute.Switched
	case parachute.Prove:
		return a.Journal.Boots != j.Boots || !a.Journal.Apart.Equal(j.Apart) || !a.Journal.Joined.Equal(j.Joined)
	default:
		return false
	}
}

// goBack returns. Once the link leads to the old release, only what does not run is
// started: a daemon that takes its time is not ended again.
func (p Parachute) goBack(ctx context.Context, j parachute.Journal) error {
	running, err := p.Running()
	if err := errors.Join(err, p.Journal.SetDown(true)); err != nil {
		return err
	}
	if running == j.From {
		return p.Start(ctx)
	}
	p.Event(state.PlanEvent(fmt.Sprintf("upgrade %s: %s: %s", j.Upgrade, j.Step, j.Why)))
	for _, do := range []func(context.Context) error{p.StopAgent, p.Stop, p.SwitchBack, p.Start} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}
