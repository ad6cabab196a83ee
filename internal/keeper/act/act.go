// Package act carries out the steps of the two-node protocol on a host. No
// other package lets a stand-in vote, removes a member, has a host fenced or
// grants quorum. Its caller has decided on the step before, by
// decide/etcdmember, on a recent snapshot.
package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Etcd changes the running local etcd and the membership.
type Etcd interface {
	RemoveMember(ctx context.Context, id state.MemberID) error
	AddLearner(ctx context.Context, peerURL string) error
	Promote(ctx context.Context, id state.MemberID) error
	Mark(ctx context.Context, id state.MemberID, seq uint64) error
	MoveLeader(ctx context.Context, to state.MemberID) error
}

// Process runs etcd's process.
type Process interface {
	// Start starts etcd on the present data, and returns when etcd holds them
	// or has failed.
	Start(ctx context.Context) error
	// Stop ends it in order, and after a while by force. Kill ends it at once.
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
}

// Copy handles the data of an etcd that is down.
type Copy interface {
	// There reports whether data exist from which etcd can start.
	There() (bool, error)
	Backup(ctx context.Context) error
	// SetAside keeps the data in another folder, which it returns, in no time. Without
	// precious it needs room for new data beside them.
	SetAside(precious bool) (string, error)
	Empty(ctx context.Context) error
}

// StandIn casts the vote of a fenced member.
type StandIn interface {
	// Start begins to speak for target; evidence names the take-over.
	Start(ctx context.Context, target state.MemberID, r state.EtcdRecord) error
	Stop(ctx context.Context) error
}

// Peer acts on the other host.
type Peer interface {
	// MayFence returns an error if an administrator told Pacemaker not to act,
	// or if Pacemaker does not answer that.
	MayFence(ctx context.Context) error
	// Fence asks Pacemaker to fence it. A fence of the last seconds is answer enough,
	// unless it has to be made anew.
	Fence(ctx context.Context, anew bool) error
	// ConfirmOff asks its BMC, and leaves evidence if it is proven to be off. A host
	// that has power, or that is heard, stays as it is.
	ConfirmOff(ctx context.Context) error
	// GrantQuorum makes Corosync stop waiting for it.
	GrantQuorum(ctx context.Context) error
}

// Doer carries out verdicts on one host.
type Doer struct {
	Etcd    Etcd
	Process Process
	Copy    Copy
	StandIn StandIn
	Peer    Peer
	// PeerURL is the URL at which the peer's etcd listens for members.
	PeerURL string
	// WriteRecord makes a record durable.
	WriteRecord func(state.EtcdRecord) error
	// Ring returns the number of Corosync's present membership, zero for
	// unknown.
	Ring func() uint64
	// Log receives what an administrator may want to know.
	Log *slog.Logger
	// Event records what was done. It does not block: a step goes on at once.
	Event func(state.Event)

	fence single
	power single
}

// Limits of single steps. Each ends well before Pacemaker's monitor calls the keeper
// late, and before a stop gives up, which has the host fenced.
const (
	changeTime = 6 * time.Second // one change of the membership
	markTime   = 4 * time.Second
	askTime    = time.Second // to begin a step that goes on beside the loop
	startTime  = 20 * time.Second
	stopTime   = 25 * time.Second
	copyTime   = 40 * time.Second // a copy of 2 GB at 50 MB/s; what takes longer is set aside without one
	emptyTime  = 10 * time.Second
	fenceTime  = 260 * time.Second // longer than Pacemaker's stonith-timeout
	// recordTime is the time that a disk gets to make a record durable. Nothing
	// can end a write that hangs: the watchdog then restarts the process.
	recordTime = 15 * time.Second
)

// Limit returns how long Do takes for an action at most if nothing hangs.
func Limit(a state.EtcdAction) time.Duration {
	switch a {
	case state.EtcdWriteRecord:
		return recordTime
	case state.EtcdStart: // a learner's first start writes a record before
		return recordTime + startTime
	case state.EtcdStartStandIn:
		return startTime
	case state.EtcdStop:
		return 2 * stopTime
	case state.EtcdStopStandIn:
		return stopTime
	case state.EtcdEmpty:
		return copyTime + emptyTime
	case state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote, state.EtcdMark, state.EtcdMoveLeader, state.EtcdGrantQuorum:
		return changeTime
	case state.EtcdAskFence, state.EtcdIdle, state.EtcdWait, state.EtcdAskHuman: // a fence goes on beside the loop
	}
	return askTime
}

// Do carries out the verdict, on the snapshot from which it was made. Verdicts
// that only wait do nothing.
func (d *Doer) Do(ctx context.Context, s state.EtcdSnapshot, v state.EtcdVerdict) error {
	switch v.Action {
	case state.EtcdWriteRecord:
		return d.record(s, v)
	case state.EtcdStart:
		return d.start(ctx, s, v)
	case state.EtcdStop:
		return d.stop(ctx, s)
	case state.EtcdStartStandIn:
		return bounded(ctx, startTime, func(ctx context.Context) error { return d.StandIn.Start(ctx, v.Member, s.Record.Value) })
	case state.EtcdStopStandIn:
		return bounded(ctx, stopTime, d.StandIn.Stop)
	case state.EtcdEmpty:
		return d.empty(ctx, s)
	case state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote, state.EtcdMark, state.EtcdMoveLeader:
		return d.change(ctx, s, v)
	case state.EtcdGrantQuorum:
		return bounded(ctx, changeTime, d.Peer.GrantQuorum)
	case state.EtcdAskFence:
		return d.askFence(ctx, s, v.Anew)
	case state.EtcdIdle, state.EtcdWait, state.EtcdAskHuman:
		return nil
	}
	return fmt.Errorf("unknown step %q", v.Action)
}

func bounded(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

func (d *Doer) record(s state.EtcdSnapshot, v state.EtcdVerdict) error {
	if v.Record == nil {
		return errors.New("the verdict holds no record")
	}
	if v.Record.Seq != s.Record.Value.Seq+1 {
		return fmt.Errorf("record %d does not follow record %d", v.Record.Seq, s.Record.Value.Seq)
	}
	if err := d.WriteRecord(*v.Record); err != nil {
		return err
	}
	d.Log.Info("wrote etcd's record", "seq", v.Record.Seq, "state", v.Record.State, "member", v.Record.Member, "rule", v.Rule, "why", v.Reason)
	d.Event(state.RecordEvent(*v.Record, v))
	return nil
}

// start first writes the verdict's record, if there is one: a member that may
// have run once is never started again without its data.
func (d *Doer) start(ctx context.Context, s state.EtcdSnapshot, v state.EtcdVerdict) error {
	if v.Record != nil {
		if err := d.record(s, v); err != nil {
			return err
		}
	} else if there, err := d.Copy.There(); err != nil || !there {
		// Without its data, etcd would join anew under its old id, although the
		// leader has counted acknowledgements of that id.
		return errors.Join(errors.New("etcd is not started: its data directory has disappeared since the last check"), err)
	}
	return bounded(ctx, startTime, d.Process.Start)
}

// stop ends the stand-in first: it must not outlive the etcd that it serves. It
// kills an etcd that commits nothing, which has nothing to end in order.
func (d *Doer) stop(ctx context.Context, s state.EtcdSnapshot) error {
	end := d.Process.Stop
	if s.Local.Stalled > 0 {
		end = d.Process.Kill
	}
	return errors.Join(bounded(ctx, stopTime, d.StandIn.Stop), bounded(ctx, stopTime, end))
}

// empty backs the data up. A backup that fails or takes too long must not keep the host
// from joining, so its data are set aside then. Without room for that they are removed: the living
// cluster holds everything that these data held, unless an administrator forced the peer to lead.
// Then nothing is removed without a copy. If ctx ends, the data stay: whoever ended it wants no new
// data either.
func (d *Doer) empty(ctx context.Context, s state.EtcdSnapshot) error {
	err := bounded(ctx, copyTime, d.Copy.Backup)
	if ctx.Err() != nil {
		return fmt.Errorf("the data directory is not emptied now: %w", context.Cause(ctx))
	}
	if err != nil {
		precious := s.Statement.Known && s.Statement.Value.Record.Forced.Who != ""
		path, kept := d.Copy.SetAside(precious)
		switch {
		case kept != nil && precious:
			return fmt.Errorf("the data directory is not emptied, because the peer was forced to lead and there is no copy: %w", errors.Join(err, kept))
		case kept != nil:
			d.Log.Warn("no backup of the data directory before it is emptied", "err", errors.Join(err, kept))
		case path != "":
			d.Log.Warn("no backup of the data directory, so the data were set aside as they are", "path", path, "err", err)
		}
	}
	return bounded(ctx, emptyTime, d.Copy.Empty)
}

func (d *Doer) change(ctx context.Context, s state.EtcdSnapshot, v state.EtcdVerdict) error {
	if v.Action == state.EtcdRemove && s.Local.StandIn.Value == v.Member {
		return nil // the stand-in has it removed, and knows when that is durable
	}
	limit := changeTime
	if v.Action == state.EtcdMark {
		limit = markTime
	}
	return bounded(ctx, limit, func(ctx context.Context) error {
		switch v.Action {
		case state.EtcdRemove:
			return d.Etcd.RemoveMember(ctx, v.Member)
		case state.EtcdAddLearner:
			return d.Etcd.AddLearner(ctx, d.PeerURL)
		case state.EtcdPromote:
			return d.Etcd.Promote(ctx, v.Member)
		case state.EtcdMark:
			return d.Etcd.Mark(ctx, v.Member, v.Seq)
		default:
			return d.Etcd.MoveLeader(ctx, v.Member)
		}
	})
}

// askFence has the peer fenced beside the loop, which a fence outlasts, one
// fence at a time. A host that has not seen its peer since boot only has it
// confirmed that the peer is off: if the peer has booted meanwhile, it is left alone.
func (d *Doer) askFence(ctx context.Context, s state.EtcdSnapshot, anew bool) error {
	if state.Is(s.Pacemaker.Inert, true) {
		return d.power.begin(func() error { return bounded(ctx, fenceTime, d.Peer.ConfirmOff) })
	}
	if d.Ring() != s.Pacemaker.Ring {
		return errors.New("peer not fenced: the membership changed since the decision")
	}
	return d.fence.begin(func() error {
		if err := d.Peer.MayFence(ctx); err != nil {
			return fmt.Errorf("%s is not fenced: %w", s.Peer, err)
		}
		if d.Ring() != s.Pacemaker.Ring {
			return fmt.Errorf("%s is not fenced: the membership changed while Pacemaker was asked", s.Peer)
		}
		d.Log.Warn("asking Pacemaker to fence the peer", "host", s.Peer, "anew", anew)
		d.Event(state.AskFenceEvent(s.Peer))
		return bounded(ctx, fenceTime, func(ctx context.Context) error { return d.Peer.Fence(ctx, anew) })
	})
}
