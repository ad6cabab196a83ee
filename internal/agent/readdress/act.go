package readdress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// act does what was decided, and returns it in one line if it changed anything.
func (a *Agent) act(ctx context.Context, f decide.Facts, s decide.Step) (string, error) {
	j := f.Journal
	switch s.Act {
	case decide.Idle, decide.Wait:
		return "", nil
	case decide.Begin:
		if err := a.Keep(); err != nil {
			return "", err
		}
		err := a.Store.PutJournal(j.Begun(s.Side, s.Own))
		if errors.Is(err, install.ErrGone) { // a person took the plan back in this moment
			err = errors.Join(err, a.Forget())
		}
		return s.Words, err
	case decide.Move:
		if err := a.Quiet(ctx); err != nil {
			return "", err
		}
		if err := a.Move(*f.Plan, s.Side, j); err != nil {
			return "", err
		}
		return s.Words, a.Store.PutJournal(j.Written(f.Boot))
	case decide.Boot:
		return s.Words, a.Reboot(ctx)
	case decide.Arrive:
		return s.Words, a.Store.PutJournal(j.Arrived())
	case decide.Announce:
		return s.Words, a.announceToEtcd(ctx, j, s)
	case decide.Settle:
		if a.ControlPlane {
			// A power cut between the two leaves neither side: the cluster is told once more, wherever
			// the host is by then.
			if err := a.Store.PutJournal(j.SettledAt("")); err != nil {
				return "", err
			}
			if err := a.Cluster(ctx, *f.Plan, s.Side, j); err != nil {
				return "", err
			}
		}
		return s.Words, a.Store.PutJournal(j.SettledAt(s.Side))
	case decide.Finish:
		if err := a.Trim(*f.Plan, s.Side, j); err != nil {
			return "", err
		}
		if err := a.Forget(); err != nil {
			return "", err
		}
		return s.Words, a.Store.PutJournal(j.Ended())
	}
	return "", fmt.Errorf("nobody says how to %s", s.Act)
}

// announceToEtcd has etcd's members look for this host at another place. As long as they may
// look for it at the new place, the journal says so: such a host must not forget the plan.
func (a *Agent) announceToEtcd(ctx context.Context, j decide.Journal, s decide.Step) error {
	if s.Side == decide.To {
		if err := a.Store.PutJournal(j.ToldAt(s.Side)); err != nil {
			return err
		}
	}
	if err := a.relocate(ctx, s); err != nil {
		return err
	}
	return a.Store.PutJournal(j.ToldAt(s.Side))
}

func (a *Agent) relocate(ctx context.Context, s decide.Step) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	e, err := a.Etcd()
	if err != nil {
		return err
	}
	defer e.Close() //nolint:errcheck // the answer says whether it was done
	self, _, err := e.PeerURLs(ctx)
	if err != nil {
		return err
	}
	return e.Relocate(ctx, self, etcdpod.PeerURL(s.Own[0]))
}

// tell writes what was decided for people: into a file of the host, and into its Node.
func (a *Agent) tell(ctx context.Context, f decide.Facts, s decide.Step, problem error) error {
	d := install.Doing{Plan: f.Plan.ID, Act: s.Act, Words: s.Words, Lacks: f.Lacks, Local: f.Plan.Local, At: f.Journal.At, Over: f.Journal.Over}
	if problem != nil {
		d.Problem = problem.Error()
	}
	text := state.FormatAnnotation(d)
	if text == a.told {
		return nil
	}
	if err := a.Store.PutDoing(d); err != nil {
		return err
	}
	if !a.listed() {
		return nil
	}
	if err := a.Tell(ctx, a.Host(), text); err != nil {
		return nil //nolint:nilerr // it is told again, and an API that is away keeps nobody from moving
	}
	a.told = text
	return nil
}

// ended tells that the move is over, and takes the announcement away once every host says so.
// Of a plan that is gone it takes the host's word away.
func (a *Agent) ended(ctx context.Context, plan *decide.Plan) error {
	if !a.listed() {
		return nil
	}
	if plan == nil {
		if !a.shown() {
			return nil
		}
		return a.Tell(ctx, a.Host(), "")
	}
	d := install.Doing{Plan: plan.ID, Act: decide.Idle, Words: "the move is over", At: decide.To, Over: true}
	if text := state.FormatAnnotation(d); a.told != text {
		if err := errors.Join(a.Store.PutDoing(d), a.Tell(ctx, a.Host(), text)); err != nil {
			return err
		}
		a.told = text
	}
	if a.ControlPlane && a.announced(plan.ID) && a.everybody(plan.ID) {
		return a.Withdraw(ctx, plan.ID)
	}
	return nil
}

// drop drops a plan that was given to this host alone, once every host is at the new place and
// none says that it still has something to do.
func (a *Agent) drop(ctx context.Context, f decide.Facts) error {
	if !f.Dropped() || a.going() {
		return nil
	}
	if a.ControlPlane {
		if err := a.Withdraw(ctx, f.Plan.ID); err != nil {
			return err
		}
	}
	return a.Store.Drop()
}

// going reports whether a host says of a plan that it is not over.
func (a *Agent) going() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.nodes, func(n state.Node) bool {
		var d install.Doing
		return json.Unmarshal([]byte(n.Annotations[install.Annotation]), &d) == nil && !d.Over
	})
}

// listed reports whether the API has listed the nodes in this run.
func (a *Agent) listed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes != nil
}

// shown reports whether this host's Node says something of a plan.
func (a *Agent) shown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.nodes, func(n state.Node) bool { return n.Name == a.Host() && n.Annotations[install.Annotation] != "" })
}

// announced reports whether the API still announces a plan.
func (a *Agent) announced(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var p decide.Plan
	return a.announce != "" && json.Unmarshal([]byte(a.announce), &p) == nil && p.ID == id
}

// everybody reports whether each host says that a plan is over.
func (a *Agent) everybody(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(a.nodes, func(n state.Node) bool {
		var d install.Doing
		return json.Unmarshal([]byte(n.Annotations[install.Annotation]), &d) != nil || d.Plan != id || !d.Over
	})
}
