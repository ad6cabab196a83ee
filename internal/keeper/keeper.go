// Package keeper is the daemon that keeps etcd on one of two hosts. One round after
// the other, it looks at the host, tells the peer, decides and acts. Nothing else on
// its host does so: Pacemaker's actions are requests to it.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/keeper/act"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Timing of the loop, unless something wakes it earlier.
const (
	// quiet is the time between two looks while etcd is well.
	quiet = time.Second
	// busy is the time between two looks while something is under way.
	busy = 200 * time.Millisecond
	// listen is the interval between two reads of the peer's statement while all is
	// well; each read starts a process.
	listen = 3 * time.Second
	// lively is the time after a change during which the loop stays busy.
	lively = 5 * time.Second
	// retryAfter is the longest pause after a step that failed.
	retryAfter = 5 * time.Second
)

// rounds bounds the number of steps that follow each other without a pause.
const rounds = 25

// Process is etcd's process as the keeper sees it.
type Process interface {
	// State returns the state of the process.
	State(uptime time.Duration) etcdhealth.Process
	// Kill ends it at once.
	Kill(ctx context.Context) error
	// Outdated reports whether it runs by another manifest than the present one, or an
	// error if nobody knows. It is also called from outside the loop.
	Outdated() (bool, error)
	// Restart ends it in order and starts it by the present manifest.
	Restart(ctx context.Context) error
	// Foreign reports whether kubelet runs etcd, as before the hand-over.
	Foreign() bool
}

// Keeper keeps etcd on one host.
type Keeper struct {
	Observer *member.Observer
	Doer     *act.Doer
	Process  Process
	// Publish sends this host's statement to the peer.
	Publish func(ctx context.Context, statement string) error
	// StandInResult returns the outcome of the last take-over and describes it, for
	// the report.
	StandInResult func() (state.StandInOutcome, string)
	// SaveWish stores the wish, so that it survives a restart of the daemon.
	SaveWish func(state.EtcdWishNote) error
	Log      *slog.Logger
	// Event records what this host saw, decided or did. It does not block.
	Event func(state.Event)
	// Reach returns what this host knows of its own reach; nil if nothing measures
	// it.
	Reach func() state.Reach
	// Close ends the connections that the keeper was made with; nil if it has none.
	Close func() error

	wake chan struct{}

	mu     sync.Mutex
	wish   state.EtcdWishNote
	report state.EtcdReport
	// changed is closed and replaced whenever the report is replaced.
	changed chan struct{}
	stint   stint
	// breakOff ends the step under way, if a new wish of Pacemaker may do that.
	breakOff context.CancelCauseFunc

	rule      string
	ruleSince time.Duration
	lastMove  time.Duration // when something last changed
	failures  int
	serial    uint64
	published string // without its serial number
	numbered  string // as it was sent
	toldAt    time.Time
}

// Start prepares a keeper with the wish to begin with.
func (k *Keeper) Start(wish state.EtcdWishNote) {
	k.wake, k.changed, k.wish = make(chan struct{}, 1), make(chan struct{}), wish
	k.report.Wish = wish.Wish
}

// Wake makes the next round begin at once.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run keeps etcd until the context ends. It then leaves etcd as it is.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := k.turn(ctx)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// turn does rounds until nothing is left to do at once, and returns the pause after
// them.
func (k *Keeper) turn(ctx context.Context) time.Duration {
	for range rounds {
		again, pause := k.round(ctx)
		if !again || ctx.Err() != nil {
			return pause
		}
	}
	return busy
}

// round looks, tells the peer, decides and acts. A statement promises the peer what
// this host will do, so the round does nothing that it did not tell.
func (k *Keeper) round(ctx context.Context) (again bool, pause time.Duration) {
	wish := k.Wish()
	var s state.EtcdSnapshot
	err := k.within(ctx, "reading the state of this host", lookTime, func(ctx context.Context) (err error) {
		s, err = k.Observer.Snapshot(ctx, wish)
		return err
	})
	if err != nil {
		k.tell(wish, s, state.EtcdVerdict{Action: state.EtcdWait, Rule: "unseen", Reason: "the state of this host cannot be read"}, err)
		return false, quiet
	}
	if etcdmember.Hears(s) {
		err = k.within(ctx, "recording the peer's statement", hearTime, func(context.Context) error { return k.Observer.Memory.Hear(s.Boot) })
	}
	err = errors.Join(err, k.within(ctx, "publishing the statement to the peer", publishTime, func(ctx context.Context) error { return k.publish(ctx, s) }))
	verdict := etcdmember.Decide(s)
	k.note(s, verdict)
	if etcdmember.GoesOn(s, verdict) {
		err = errors.Join(err, k.within(ctx, "recording a stall", hearTime, func(context.Context) error { return k.Observer.Memory.Stall(s.Uptime) }))
	}
	if err == nil && k.permitted(wish, s, verdict) {
		err = k.step(ctx, wish, s, verdict)
		if verdict.Action == state.EtcdStop || verdict.Action == state.EtcdEmpty || verdict.Action == state.EtcdStart {
			k.Observer.Forget()
		}
	}
	if err == nil {
		err = k.care(ctx, wish, s, verdict)
	}
	k.tell(wish, s, verdict, err)
	return k.next(s, verdict, err)
}

// step carries a verdict out, unless Pacemaker has asked for something else since the look:
// a stop may be answered while a step is under way, but not before one that starts anything.
func (k *Keeper) step(ctx context.Context, wish state.EtcdWishNote, s state.EtcdSnapshot, v state.EtcdVerdict) error {
	return k.within(ctx, stepOf(v.Action), act.Limit(v.Action), func(context.Context) error {
		ctx := ctx // the outer one: Do bounds its own steps, and a fence outlasts the round
		if v.Action == state.EtcdEmpty {
			breakable, end := context.WithCancelCause(ctx)
			defer end(nil)
			k.breakable(end)
			defer k.breakable(nil)
			ctx = breakable
		}
		if k.Wish() != wish {
			return nil
		}
		return k.Doer.Do(ctx, s, v)
	})
}

// stepOf names a step of the loop, and restarting the restart in place.
func stepOf(a state.EtcdAction) string { return "the step " + string(a) }

const restarting = "restarting etcd"

// breakable stores how the step under way is broken off when Pacemaker asks for something else.
func (k *Keeper) breakable(end context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.breakOff = end
}

// mayStart reports whether the part of the loop that is under way may yet start etcd or a
// stand-in. After a stop was asked for, no such part begins any more.
func (k *Keeper) mayStart() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains([]string{stepOf(state.EtcdStart), stepOf(state.EtcdStartStandIn), restarting}, k.stint.what)
}

// permitted reports whether Pacemaker's wish allows a step. Until Pacemaker has
// asked for anything, a host that waits for its peer may only take the steps by
// which it finds out that it goes on alone; its data directory is not touched. The
// data directory is also not emptied while kubelet runs etcd: kubelet would start
// etcd again and again on the empty directory and create a new cluster out of
// nothing. The hand-over removes kubelet's manifest first. Where no host takes over any
// more, etcd starts before Pacemaker asks: Pacemaker may wait for the peer, or be in maintenance, and
// the third member needs the vote (docs/adr/0097).
func (k *Keeper) permitted(w state.EtcdWishNote, s state.EtcdSnapshot, v state.EtcdVerdict) bool {
	if v.Action == state.EtcdEmpty && k.Process.Foreign() {
		return false
	}
	if w.Wish != state.EtcdNotAsked {
		return true
	}
	switch v.Action {
	case state.EtcdAskFence, state.EtcdGrantQuorum, state.EtcdWriteRecord:
		return state.Is(s.Pacemaker.Inert, true)
	case state.EtcdStart:
		return v.Rule == state.EtcdRuleMajorityStart && !k.Process.Foreign()
	default:
		return false
	}
}

// care looks after the process itself: it ends a process that cannot answer, and
// restarts one that runs by an old manifest, both in place.
func (k *Keeper) care(ctx context.Context, w state.EtcdWishNote, s state.EtcdSnapshot, v state.EtcdVerdict) error {
	if w.Wish == state.EtcdNotAsked || k.Process.Foreign() {
		return nil
	}
	var p etcdhealth.Process
	_ = k.within(ctx, "reading the state of etcd's process", watchTime, func(context.Context) error { p = k.Process.State(s.Uptime); return nil })
	p.Mute, p.Unwanted, p.Stale = k.Observer.Mute(s), w.Wish == state.EtcdStopped, stale(s)
	if why := etcdhealth.End(p); why != "" {
		k.Log.Warn("killing etcd's process", "why", why, "restarted", !p.Unwanted)
		if !p.Unwanted {
			k.Event(state.RestartEvent(why))
		}
		return k.within(ctx, "killing etcd's process", killTime, k.Process.Kill)
	}
	if p.Unwanted || v.Action != state.EtcdIdle || s.Local.Leader.Value == 0 || s.Uptime-k.lastMove < lively {
		return nil
	}
	var old bool
	err := k.within(ctx, "checking etcd's manifest", watchTime, func(context.Context) (err error) { old, err = k.Process.Outdated(); return err })
	if err != nil || !old {
		return err
	}
	k.Log.Info("etcd's manifest changed: restarting etcd in place")
	return k.within(ctx, restarting, restartTime, func(ctx context.Context) error {
		if k.Wish() != w { // as in step
			return nil
		}
		return k.Process.Restart(ctx)
	})
}

// next returns whether another round follows at once, and otherwise the pause.
func (k *Keeper) next(s state.EtcdSnapshot, v state.EtcdVerdict, err error) (bool, time.Duration) {
	if err != nil {
		k.failures++
		return false, min(busy*time.Duration(k.failures), retryAfter)
	}
	k.failures = 0
	switch {
	case acts(v.Action) && k.Wish().Wish != state.EtcdNotAsked:
		return v.Action == state.EtcdWriteRecord || v.Action == state.EtcdStop || v.Action == state.EtcdStart, busy
	case v.Action != state.EtcdIdle && k.Wish().Wish == state.EtcdStarted, s.Uptime-k.lastMove < lively:
		return false, busy
	}
	return false, quiet
}

// acts reports whether an action does anything.
func acts(a state.EtcdAction) bool {
	return a != state.EtcdIdle && a != state.EtcdWait && a != state.EtcdAskHuman
}

// note remembers since when the present rule decides, and logs a change of rule.
func (k *Keeper) note(s state.EtcdSnapshot, v state.EtcdVerdict) {
	if v.Rule == k.rule {
		return
	}
	k.rule, k.ruleSince, k.lastMove = v.Rule, s.Uptime, s.Uptime
	k.Log.Info("decision changed", "rule", v.Rule, "action", v.Action, "why", v.Reason)
	k.Event(state.DecisionEvent(v))
}

// publish sends the peer this host's statement if it changed since the last one.
func (k *Keeper) publish(ctx context.Context, s state.EtcdSnapshot) error {
	statement := etcdmember.Statement(s)
	if statement.Ring == 0 {
		return nil // there is no peer to tell, and a statement without a ring does not count
	}
	text, err := json.Marshal(statement)
	if err != nil {
		return err
	}
	if string(text) == k.published {
		return k.repeats(ctx)
	}
	k.serial++
	statement.Serial = uint64(s.Uptime) + k.serial //nolint:gosec // an uptime is positive; the sum grows over a restart of the daemon too
	numbered, err := json.Marshal(statement)
	if err != nil {
		return err
	}
	k.published, k.numbered = "", ""
	if err := k.Publish(ctx, string(numbered)); err != nil {
		return fmt.Errorf("publish the statement to the peer: %w", err)
	}
	k.published, k.numbered, k.lastMove, k.toldAt = string(text), string(numbered), s.Uptime, time.Now()
	return nil
}

// tellAgain is the time that Pacemaker gets to store a statement. Where packets are
// lost it needs seconds, and a repetition before then only lengthens its queue.
const tellAgain = 3 * time.Second

// repeat is the interval at which an unchanged statement is sent again. This host's
// Pacemaker may hold a statement that the peer's has lost: when hosts meet, the
// writer of attributes sends all of them, and a statement of that moment may lose
// against the older one that the writer holds (seen with 2.1.5: the peer waited for
// this host's statement for good).
const repeat = 10 * time.Second

// repeats sends the same statement once more.
func (k *Keeper) repeats(ctx context.Context) error {
	if k.numbered == "" || time.Since(k.toldAt) < repeat {
		return nil
	}
	k.toldAt = time.Now()
	if err := k.Publish(ctx, k.numbered); err != nil {
		return fmt.Errorf("publish the statement to the peer again: %w", err)
	}
	return nil
}

// heardSelf takes the statement of this host that Pacemaker holds. A statement that
// was lost, as when Pacemaker was restarted, is sent again: at once if Pacemaker
// holds none, otherwise after tellAgain.
func (k *Keeper) heardSelf(statement string) {
	if statement != k.numbered && (statement == "" || time.Since(k.toldAt) >= tellAgain) {
		k.published = ""
	}
}

// tell stores the report of a round and wakes those who wait for one.
func (k *Keeper) tell(w state.EtcdWishNote, s state.EtcdSnapshot, v state.EtcdVerdict, err error) {
	r := state.EtcdReport{
		Wish: w.Wish, Snapshot: s, Verdict: v, At: s.Now, Since: s.Uptime - k.ruleSince,
		Down: min(k.Observer.Down(s), s.Uptime-w.At),
	}
	r.StandInOutcome, r.StandIn = k.StandInResult()
	if err != nil {
		r.Problem = err.Error()
	}
	if k.Reach != nil {
		r.Reach = k.Reach()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Problem != "" && r.Problem != k.report.Problem {
		k.Log.Warn("a round failed", "rule", v.Rule, "err", r.Problem)
	}
	k.report = r
	close(k.changed)
	k.changed = make(chan struct{})
}

// Report returns the last round's report, and a channel that is closed when there is
// a newer one.
func (k *Keeper) Report() (state.EtcdReport, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.report, k.changed
}

// Manifest adds to a report whether etcd runs by another manifest than the present
// one. This is computed on request only.
func (k *Keeper) Manifest(r state.EtcdReport) state.EtcdReport {
	if k.Process.Foreign() || !state.Is(r.Snapshot.Local.Running, true) {
		return r
	}
	if old, err := k.Process.Outdated(); err == nil {
		r.Outdated = state.Known(old)
	}
	return r
}

// Wish returns what Pacemaker asked for last.
func (k *Keeper) Wish() state.EtcdWishNote {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wish
}

// Ask records what Pacemaker asks for. To ask for the same again changes nothing.
func (k *Keeper) Ask(wish state.EtcdWish) error {
	boot, uptime, err := k.Observer.Boot()
	if err != nil {
		return err
	}
	w, same := k.Wish(), k.Wish().Wish == wish
	if !same {
		w = state.EtcdWishNote{Wish: wish, At: uptime, Boot: boot}
	}
	if err := k.SaveWish(w); err != nil { // even the same: a stop may have been noted without us
		return fmt.Errorf("store Pacemaker's request: %w", err)
	}
	if same {
		k.Wake()
		return nil
	}
	k.mu.Lock()
	k.wish = w
	if k.breakOff != nil {
		k.breakOff(fmt.Errorf("it was broken off: Pacemaker wants etcd %s", wish))
	}
	k.mu.Unlock()
	k.Log.Info("Pacemaker asks for another state of etcd", "wish", wish)
	k.Event(state.WishEvent(wish))
	k.Wake()
	return nil
}
