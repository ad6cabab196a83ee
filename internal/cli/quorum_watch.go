package cli

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// watch polls the etcd keeper until etcd takes writes and Pacemaker has what it
// needs, or until the limit.
func (c *confirmation) watch(ctx context.Context, out *outcome) error {
	w := watcher{confirmation: c, out: out, end: c.host.now().Add(c.watchLimit)}
	// If the BMC says Off, Pacemaker's own fencing succeeds.
	w.needless = out.Wrote == nil || out.Situation.BMC.Power.Known
	for {
		if err := w.look(ctx); err != nil || out.GoesOn {
			return err
		}
		if c.host.now().After(w.end) {
			return w.late()
		}
		if err := c.host.sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// watcher is a watch in progress.
type watcher struct {
	*confirmation
	out *outcome
	end time.Time
	// needless reports that Pacemaker needs no message about the peer, told that
	// it has one and counts the peer as down.
	needless, told bool
	toldAt         time.Time
	rule           string // the last one shown
	failed         error  // the etcd keeper's last failure to answer
	deaf           error  // Pacemaker's last refusal
}

func (w *watcher) look(ctx context.Context) error {
	r, err := w.host.report(ctx)
	if w.failed = err; err != nil {
		if errors.Is(err, explain.ErrNoAgent) { // it may be restarting
			return nil
		}
		return err
	}
	w.out.Situation.Report = r
	if w.rule != r.Verdict.Rule {
		w.rule = r.Verdict.Rule
		w.say("%s (%s)", r.Verdict.Reason, r.Verdict.Rule)
	}
	w.tell(ctx, r.Snapshot)
	w.out.GoesOn = (w.told || w.needless) && takesWrites(r)
	return nil
}

// tell makes Pacemaker count the peer as down, which it would not learn from a
// BMC that does not answer. Pacemaker refuses until it has its quorum.
func (w *watcher) tell(ctx context.Context, s state.EtcdSnapshot) {
	if !state.Is(s.Pacemaker.Contact, false) { // it came back, or its contact is unknown
		w.needless = w.needless || s.Pacemaker.Contact.Known
		return
	}
	now := w.host.now()
	if w.needless || w.told && now.Before(w.toldAt.Add(tellAgain)) || !state.Is(s.Pacemaker.Inert, false) {
		return
	}
	if w.deaf = w.host.tellPacemaker(ctx, s.Peer); w.deaf != nil {
		return
	}
	if !w.told {
		w.say("Pacemaker counts %s as down", s.Peer)
	}
	w.told, w.toldAt = true, now
}

// tellAgain is the time after which Pacemaker is told again while etcd does not
// go on. If Pacemaker was just electing its coordinator, it may have missed the
// message.
const tellAgain = 10 * time.Second

// late returns an error that says what was not reached in time, and why.
func (w *watcher) late() error {
	r := w.out.Situation.Report
	if takesWrites(r) {
		return coded(command.ExitAttention, "etcd takes writes, but Pacemaker does not know that %s is down%s. Nobody else tells it, type: sudo stonith_admin --confirm %s", r.Snapshot.Peer, because(w.deaf), r.Snapshot.Peer)
	}
	why := w.failed
	if why == nil && r.Problem != "" {
		why = errors.New(r.Problem)
	}
	return coded(command.ExitRecovers, "confirmed, but etcd takes no writes after %s: %s%s; see 'holdfast explain etcd'", w.watchLimit, r.Verdict.Reason, because(why))
}

// takesWrites reports whether etcd here has a leader, in a cluster that has
// settled: this host alone, or both hosts if the peer has come back.
func takesWrites(r state.EtcdReport) bool {
	s := r.Snapshot
	settled := s.Record.Known && s.Record.Value.State == state.EtcdSole || state.Is(s.Pacemaker.Contact, true)
	return settled && state.Is(s.Local.Running, true) && s.Local.Leader.Known && s.Local.Leader.Value != 0 && r.Verdict.Action != state.EtcdAskHuman
}
