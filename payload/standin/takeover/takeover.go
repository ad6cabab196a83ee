// Package takeover casts the vote of a fenced etcd member for the survivor of a
// two-voter cluster, has the survivor remove that member, and ends.
//
// A run changes nothing on this host. It may be killed at any point and run
// again: it only lets the survivor's etcd do what it would do with its peer's
// vote, and asks it for one change of the membership. The caller must know that
// the run is allowed: a confirmed fence and an eligible survivor. The run
// checks the parts of this that it can see.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"

	"github.com/holdfast/holdfast/payload/standin/vote"
)

// settle bounds the wait for a leader that has nothing new to commit.
const settle = 50 * time.Millisecond

// run is one take-over.
type run struct {
	req      Request
	log      *zap.Logger
	start    time.Time
	survivor *survivor
	api      *api
	result   Result
}

// Run does one take-over. It returns when the fenced member is removed, when
// the vote must not be cast, or when the request's deadline or the context
// ends. If the context ended, the reason is Interrupted.
func Run(ctx context.Context, req Request, log *zap.Logger) Result {
	r := &run{req: req, log: log, start: time.Now()}
	r.result = Result{Evidence: req.Evidence, Version: version.Version}
	limited, cancel := context.WithTimeout(ctx, time.Duration(req.DeadlineMS)*time.Millisecond)
	defer cancel()
	err := r.do(limited)
	r.conclude(err, ctx.Err() != nil)
	r.result.MS.Ended = r.since()
	return r.result
}

// conclude turns the end of the run into the result.
func (r *run) conclude(err error, interrupted bool) {
	var s *stop
	switch {
	case err == nil:
		r.result.Outcome = Done
		return
	case errors.As(err, &s):
	default:
		s = refuse(TLSIdentity, err.Error())
	}
	r.result.Outcome, r.result.Reason, r.result.Detail = s.outcome, s.reason, s.detail
	if interrupted && s.outcome == Unfinished {
		r.result.Reason = Interrupted
	}
}

func (r *run) since() float64 {
	return float64(time.Since(r.start).Microseconds()) / 1000
}

// mark records the time of a step when it is first reached.
func (r *run) mark(step *float64, reached bool) {
	if reached && *step == 0 {
		*step = r.since()
	}
}

func (r *run) do(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if r.survivor, err = newSurvivor(r.req); err != nil {
		return err
	}
	defer r.survivor.close()
	if r.api, err = dialAPI(r.req); err != nil {
		return err
	}
	defer r.api.close()
	view, err := r.survivor.wait(ctx)
	if err != nil {
		return err
	}
	switch err := judge(r.req, view, version.Version); {
	case err != nil && err.outcome == NothingToDo:
		return errors.Join(r.confirm(ctx), err)
	case err != nil:
		return err
	}
	alive := watchPeer(ctx, view.find(r.req.Target).PeerURLs)
	voter := vote.New(vote.Config{
		Self: uint64(r.req.Target), Survivor: uint64(r.req.Survivor),
		Least: r.req.LeastIndex, Nudge: !r.req.NoNudge,
	})
	return r.standIn(ctx, alive, voter)
}

// lastLook gives the fenced member a moment to show that it lives. Meanwhile it
// reads etcd's status, and returns the least index that its log must have
// reached. Before its first election etcd gives no status, and none is needed.
func (r *run) lastLook(ctx context.Context, alive <-chan string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.req.PeerProbeMS)*time.Millisecond)
	defer cancel()
	var least uint64
	if st, err := r.api.status(ctx); err == nil {
		if err := corrupt(st); err != nil {
			return 0, err
		}
		least = max(st.RaftIndex, st.RaftAppliedIndex)
	}
	select {
	case where := <-alive:
		return 0, refuse(TargetAlive, where)
	case <-ctx.Done():
		return least, nil
	}
}

// standIn speaks for the fenced member until the survivor has removed it. It
// connects during the last look, and answers only after that.
func (r *run) standIn(ctx context.Context, alive <-chan string, voter *vote.Voter) error {
	l, err := openLink(r.req, voter, r.log)
	if err != nil {
		return err
	}
	defer l.close()
	l.ask()
	least, err := r.lastLook(ctx, alive)
	if err != nil {
		return err
	}
	r.mark(&r.result.MS.Checked, true)
	l.release(least)
	err = r.follow(ctx, l, alive)
	p := l.progress()
	r.result.Term, r.result.Tail, r.result.Unseen = p.Term, p.Tail, p.Unseen
	return err
}

// confirm makes the removal durable on the survivor's disk.
func (r *run) confirm(ctx context.Context) error {
	err := r.api.confirm(ctx, r.req.Evidence)
	r.mark(&r.result.MS.Confirmed, err == nil)
	return err
}

// follow waits for the next events until the run ends.
func (r *run) follow(ctx context.Context, l *link, alive <-chan string) error {
	removed := make(chan error, 1)
	removing := false
	asking := time.NewTimer(0)
	defer asking.Stop()
	for {
		select {
		case <-ctx.Done():
			return r.late(l.progress())
		case where := <-alive:
			return refuse(TargetAlive, where)
		case err := <-l.refused:
			return refused(err)
		case err := <-removed:
			r.mark(&r.result.MS.Removed, err == nil)
			if err != nil {
				return err
			}
			return r.confirm(ctx)
		case err := <-l.rejected:
			if err := r.explain(ctx, err); err != nil {
				return err
			}
		case <-asking.C:
			l.ask()
			asking.Reset(askEvery(l.progress()))
		case <-l.changed:
			if r.note(l.progress()) && !removing {
				removing = true
				go func() { removed <- r.remove(ctx, l) }()
			}
		}
	}
}

// note records the times and reports whether the survivor leads.
func (r *run) note(p vote.Progress) bool {
	r.mark(&r.result.MS.Answered, p.Answered || p.Leading)
	r.mark(&r.result.MS.Leading, p.Leading)
	r.mark(&r.result.MS.Committing, p.Committing)
	return p.Leading
}

// remove removes the fenced member. It first waits for a new leader's first
// commit, because the leader drops an earlier change of the membership.
func (r *run) remove(ctx context.Context, l *link) error {
	until := time.Now().Add(settle)
	for !l.progress().Committing && time.Now().Before(until) && pause(ctx, time.Millisecond) {
		continue
	}
	return r.api.remove(ctx, r.req.Target)
}

// explain finds out why the survivor does not take messages. Either the member
// is removed, which is the goal, or another member answers at its address.
func (r *run) explain(ctx context.Context, cause error) error {
	view, err := r.survivor.wait(ctx)
	if err != nil {
		return err
	}
	if view.find(r.req.Target) == nil {
		return nil
	}
	return refuse(SurvivorMismatch, fmt.Sprintf("%s does not take messages for member %s: %v (%v)", r.req.PeerURL, r.req.Survivor, errLinkRejected, cause))
}

func (r *run) late(p vote.Progress) error {
	switch {
	case p.Leading:
		return &stop{Unfinished, NotRemoved, "the survivor leads, but has not removed the fenced member in time"}
	case p.Answered:
		return &stop{Unfinished, NoLeader, "the survivor answers, but has not won its election in time"}
	default:
		return &stop{Unfinished, NoLeader, "the survivor has not asked for a vote in time"}
	}
}

func refused(err error) error {
	if refusal, ok := errors.AsType[*vote.Refusal](err); ok {
		return refuse(refusal.Code, refusal.Detail)
	}
	return err
}
