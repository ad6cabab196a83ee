package dualstack

import (
	"context"
	"fmt"
	"net/netip"

	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/state"
)

// act does what was decided, and returns it in one line if it changed anything.
func (a *Agent) act(ctx context.Context, f decide.Facts, s decide.Step, own []netip.Addr) (string, error) {
	p, j := *f.Plan, f.Journal
	journal := func(j decide.Journal) (string, error) { return s.Words, a.Store.Put(p, j) }
	switch s.Act {
	case decide.Idle, decide.Wait:
		return "", nil
	case decide.Drop:
		return s.Words, a.drop(ctx, f)
	case decide.Heed:
		j.Begun = true
		return journal(j)
	case decide.Mark:
		j.Stage = decide.Served
		return journal(j)
	case decide.Arrive:
		j.Stage = decide.Over
		return journal(j)
	case decide.Serve:
		return s.Words, a.Serve(p)
	case decide.Write:
		if len(own) == 0 {
			return "", fmt.Errorf("this host cannot have both families any more: %s", lacksNow(a.Fits(p)))
		}
		have, err := a.Shares(ctx)
		if err != nil {
			return "", err
		}
		shares, err := decide.Shares(have)
		if err != nil {
			return "", err
		}
		if err := a.Change(p, own, shares); err != nil {
			return "", err
		}
		j.Stage, j.Changed = decide.Written, f.Boot
		return journal(j)
	case decide.Boot:
		return "", a.AskBoot(ctx, "the host gets a second address family")
	case decide.Forget:
		return s.Words, a.Store.DropNode(s.Host)
	case decide.Begin, decide.Publish, decide.Note, decide.Share, decide.Route, decide.Withdraw:
		return a.carry(ctx, p, s)
	case decide.Settle:
		c, err := a.Cluster()
		if err == nil {
			err = c.Settle(ctx, p)
		}
		if err != nil {
			return "", err
		}
		j.Settled = true
		return journal(j)
	}
	return "", fmt.Errorf("nobody says how to %s", s.Act)
}

// lock has this plan hold the lock of all plans, if the step needs it: somebody may have deleted it,
// and another plan may have it since.
func (a *Agent) lock(ctx context.Context, f decide.Facts, s decide.Step) error {
	if !f.Locks(s) {
		return nil
	}
	c, err := a.Cluster()
	if err == nil {
		err = c.Lock(ctx, *f.Plan)
	}
	if s.Act == decide.Wait {
		return nil // it tells what it waits for
	}
	return err
}

func lacksNow(_ []netip.Addr, lacks string) string { return lacks }

// carry does an act of the carrier that needs no journal: the cluster itself tells whether it was
// done.
func (a *Agent) carry(ctx context.Context, p decide.Plan, s decide.Step) (string, error) {
	c, err := a.Cluster()
	if err != nil {
		return "", err
	}
	switch s.Act {
	case decide.Begin:
		err = c.Begin(ctx, p)
	case decide.Publish:
		err = c.Publish(ctx, p)
	case decide.Note:
		err = c.Note(ctx, p)
	case decide.Share:
		err = c.Share(ctx, p, s.Host)
	case decide.Route:
		err = c.Route(ctx, p)
	case decide.Withdraw:
		err = c.Withdraw(ctx, p)
	default:
		err = fmt.Errorf("nobody says how to %s", s.Act)
	}
	if err != nil {
		return "", err
	}
	return s.Words, nil
}

// drop forgets the plan. The carrier may have taken the lock of all plans before the plan was
// taken back.
func (a *Agent) drop(ctx context.Context, f decide.Facts) error {
	if f.Carrier() == a.Host() {
		c, err := a.Cluster()
		if err == nil {
			err = c.Unlock(ctx, *f.Plan)
		}
		if err != nil {
			return err
		}
	}
	if err := a.Store.Drop(); err != nil {
		return err
	}
	a.told = ""
	return a.Tell(ctx, a.Host(), "")
}

// tell writes into the Node of this host how far it is, and what was decided. It is told again if
// that fails: an API that is away keeps nobody from going on.
func (a *Agent) tell(ctx context.Context, f decide.Facts, s decide.Step, lacks string) {
	j := f.Journal
	d := install.Doing{Plan: f.Plan.ID, Stage: j.Stage, Begun: j.Begun, Settled: j.Settled, Words: s.Words, Way: s.Way}
	if !j.Begun {
		d.Lacks = lacks
	}
	if a.failed == s.Rule {
		d.Problem = a.problem
	}
	text := state.FormatAnnotation(d)
	if !a.shows(text) && a.Tell(ctx, a.Host(), text) == nil {
		a.told, a.toldAt = text, a.Now()
	}
}

// shows reports whether the Node of this host has a text, or will once the API has told of it.
func (a *Agent) shows(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if n.Name == a.Host() && !n.Absent {
			// the watch may be late; a Node that was made again may have an older word
			return n.Annotations[install.Annotation] == text || a.told == text && a.Now().Sub(a.toldAt) < late
		}
	}
	return true // there is no Node to write to
}
