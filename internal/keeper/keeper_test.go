package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/keeper/act"
	"github.com/holdfast/holdfast/internal/model/state"
)

// world is one host with an etcd that can be started, and a peer that speaks.
type world struct {
	record     state.EtcdRecord
	running    bool
	leader     state.MemberID
	mute       bool
	foreign    bool
	frozen     bool
	publishErr error
	published  []state.EtcdStatement
	did        []string
	peer       *state.EtcdStatement
	ticking    sync.Mutex // guards clock: not only the loop asks for the time
	clock      time.Duration
	outdated   int // how often the keeper asked whether the manifest is outdated
	events     []state.Event
}

// told returns the events that were noted, without the reasons that repeat the
// verdict.
func (w *world) told() (out []state.Event) {
	for _, e := range w.events {
		e.Why = ""
		out = append(out, e)
	}
	return out
}

func (w *world) do(what string) error { w.did = append(w.did, what); return nil }

func (w *world) Start(context.Context) error   { w.running = true; return w.do("start") }
func (w *world) Stop(context.Context) error    { w.running = false; return w.do("stop") }
func (w *world) Kill(context.Context) error    { w.running = false; return w.do("kill") }
func (w *world) Restart(context.Context) error { return w.do("restart") }
func (w *world) Outdated() (bool, error)       { w.outdated++; return false, nil }
func (w *world) Foreign() bool                 { return w.foreign }
func (w *world) State(time.Duration) etcdhealth.Process {
	return etcdhealth.Process{Runs: w.running, Stopped: w.frozen, Age: time.Hour}
}

func (w *world) boot() (string, time.Duration, error) {
	w.ticking.Lock()
	defer w.ticking.Unlock()
	w.clock += time.Second
	return "boot-2", w.clock, nil
}

type noStandIn struct{}

func (noStandIn) Start(context.Context, state.MemberID, state.EtcdRecord) error { return nil }
func (noStandIn) Stop(context.Context) error                                    { return nil }

type otherHost struct{ *world }

func (o otherHost) MayFence(context.Context) error    { return nil }
func (o otherHost) Fence(context.Context, bool) error { return o.do("fence") }
func (o otherHost) ConfirmOff(context.Context) error  { return o.do("confirm off") }
func (o otherHost) GrantQuorum(context.Context) error { return o.do("grant quorum") }

type etcdChanges struct{ *world }

func (e etcdChanges) RemoveMember(context.Context, state.MemberID) error { return e.do("remove") }
func (e etcdChanges) AddLearner(context.Context, string) error           { return e.do("add") }
func (e etcdChanges) Promote(context.Context, state.MemberID) error      { return e.do("promote") }
func (e etcdChanges) Mark(context.Context, state.MemberID, uint64) error { return e.do("mark") }
func (e etcdChanges) MoveLeader(context.Context, state.MemberID) error   { return e.do("move leader") }

var both = []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta"}}

// logOf returns a logger that writes to the test's output.
func logOf(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func newKeeper(t *testing.T, w *world, wish state.EtcdWish) *Keeper {
	t.Helper()
	memory, err := member.OpenMemory(filepath.Join(t.TempDir(), "memory"), "boot-2")
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{
		Process: w, StandInResult: func() (state.StandInOutcome, string) { return "", "" }, SaveWish: func(state.EtcdWishNote) error { return nil },
		Log: logOf(t), Event: func(e state.Event) { w.events = append(w.events, e) }, Publish: func(_ context.Context, text string) error {
			if w.publishErr != nil {
				return w.publishErr
			}
			var st state.EtcdStatement
			if err := json.Unmarshal([]byte(text), &st); err != nil {
				t.Error(err)
			}
			w.published = append(w.published, st)
			return nil
		},
	}
	k.Observer = &member.Observer{Host: "alpha", Peer: "beta", Memory: memory, Sources: member.Sources{
		Boot:   w.boot,
		Now:    func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) },
		Record: func() (state.EtcdRecord, error) { return w.record, nil },
		Held:   func() (bool, error) { return w.running, nil },
		Look: func(context.Context) (member.Look, error) {
			if w.mute {
				return member.Look{}, errors.New("no answer")
			}
			return member.Look{Cluster: 0xc, Member: 0xa, Leader: w.leader, Members: both}, nil
		},
		Inspect: func(context.Context) (state.EtcdData, error) {
			return state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: both}, nil
		},
		StandIn: func() (state.MemberID, error) { return 0, nil },
		Statement: func(context.Context, string) (state.EtcdStatement, bool, error) {
			if w.peer == nil {
				return state.EtcdStatement{}, false, nil
			}
			return *w.peer, true, nil
		},
		Fenced: func(string) (state.Fact[state.EtcdFenced], error) { return state.Fact[state.EtcdFenced]{}, nil },
		Human:  func() (state.Fact[state.Confirmation], error) { return state.Fact[state.Confirmation]{}, nil },
		Power:  func() state.Fact[string] { return state.Known("Off") },
	}}
	k.Doer = &act.Doer{
		Etcd: etcdChanges{w}, Process: w, Copy: copyOf{w}, StandIn: noStandIn{}, Peer: otherHost{w}, Log: logOf(t), Event: k.Event,
		WriteRecord: func(r state.EtcdRecord) error { w.record = r; return w.do("write " + string(r.State)) },
		Ring:        k.Observer.Ring,
	}
	k.Start(state.EtcdWishNote{Wish: wish, Boot: "boot-2"})
	return k
}

func meet(k *Keeper) {
	k.Observer.SetMembership(state.Known(state.Membership{Ring: 7, Members: []string{"alpha", "beta"}, Quorate: true}))
}

func pairRecord() state.EtcdRecord {
	return state.EtcdRecord{State: state.EtcdPair, Seq: 4, Cluster: 0xc, Member: 0xa, Paired: state.EtcdPairing{Member: 0xb, Seq: 2}}
}

func peerPair() *state.EtcdStatement {
	return &state.EtcdStatement{
		Boot: "p1", Serial: 1, Ring: 7, SeenSeq: 4, Running: state.Known(true), StandIn: state.Known(state.MemberID(0)),
		Record:  state.EtcdRecord{State: state.EtcdPair, Seq: 2, Cluster: 0xc, Member: 0xb, Paired: state.EtcdPairing{Member: 0xa, Seq: 4}},
		Data:    state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xb}),
		Members: state.Known(both),
	}
}

func TestEtcdIsStartedOnlyWhenPacemakerWantsIt(t *testing.T) {
	for wish, want := range map[state.EtcdWish][]string{
		state.EtcdNotAsked: nil, state.EtcdStarted: {"start"}, state.EtcdStopped: nil,
	} {
		t.Run(string(wish), func(t *testing.T) {
			w := &world{record: pairRecord(), leader: 0xb, peer: peerPair()}
			k := newKeeper(t, w, wish)
			meet(k)
			k.turn(t.Context())
			if !slices.Equal(w.did, want) {
				t.Errorf("did %q, want %q", w.did, want)
			}
		})
	}
}

func TestAHostThatWaitsForItsPeerActsBeforePacemakerDoes(t *testing.T) {
	w := &world{record: state.EtcdRecord{State: state.EtcdSole, Seq: 4, Cluster: 0xc, Member: 0xa}}
	k := newKeeper(t, w, state.EtcdNotAsked)
	k.Observer.SetMembership(state.Known(state.Membership{Ring: 3, Members: []string{"alpha"}}))
	k.turn(t.Context())
	r, _ := k.Report()
	if r.Verdict.Rule != "alone.fence-first" {
		t.Errorf("%+v", r.Verdict)
	}
}

func TestNothingIsDoneThatThePeerWasNotTold(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb, peer: peerPair(), publishErr: errors.New("no answer")}
	k := newKeeper(t, w, state.EtcdStarted)
	meet(k)
	k.turn(t.Context())
	r, _ := k.Report()
	if len(w.did) > 0 || r.Problem == "" {
		t.Errorf("did %q, problem %q", w.did, r.Problem)
	}
	w.publishErr = nil
	k.turn(t.Context())
	if !slices.Equal(w.did, []string{"start"}) || len(w.published) == 0 || w.published[0].Ring != 7 {
		t.Errorf("did %q after %+v", w.did, w.published)
	}
}

func TestThePeerIsToldOnceOfWhatDoesNotChange(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	meet(k)
	for range 5 {
		k.turn(t.Context())
	}
	if len(w.published) != 1 || len(w.did) > 0 {
		t.Errorf("told %d times, did %q", len(w.published), w.did)
	}
	w.leader = 0xb
	k.turn(t.Context())
	if len(w.published) != 2 || w.published[1].Serial <= w.published[0].Serial {
		t.Errorf("%+v", w.published)
	}
}

func TestAFrozenEtcdIsEndedAndStartedAgain(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	meet(k)
	k.turn(t.Context())
	w.frozen, w.mute = true, true
	for range 4 {
		k.turn(t.Context())
		if len(w.did) > 0 {
			w.frozen, w.mute = false, false
		}
	}
	if !slices.Equal(w.did, []string{"kill", "start"}) {
		t.Errorf("did %q", w.did)
	}
	if n := len(slices.DeleteFunc(w.events, func(e state.Event) bool { return e.Kind != state.EventRestart || e.Why == "" })); n != 1 {
		t.Errorf("%d restarts are noted", n)
	}
}

func TestKubeletsEtcdIsLeftAlone(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair(), foreign: true, frozen: true, mute: true}
	k := newKeeper(t, w, state.EtcdStarted)
	meet(k)
	for range 4 {
		k.turn(t.Context())
	}
	if len(w.did) > 0 {
		t.Errorf("did %q", w.did)
	}
}

// TestTheKeeperNotesWhatReportsAreMadeOf lets a host lose its peer.
func TestTheKeeperNotesWhatReportsAreMadeOf(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdNotAsked)
	if err := k.Ask(state.EtcdStarted); err != nil {
		t.Fatal(err)
	}
	if err := k.Ask(state.EtcdStarted); err != nil { // a repeated wish causes no event
		t.Fatal(err)
	}
	two := state.Known(state.Membership{Ring: 7, Members: []string{"alpha", "beta"}, Quorate: true})
	one := state.Known(state.Membership{Ring: 8, Members: []string{"alpha"}, Quorate: true})
	k.meets(two)
	k.turn(t.Context())
	k.turn(t.Context())
	w.peer = nil
	k.meets(one)
	k.turn(t.Context())
	want := []state.Event{
		state.WishEvent(state.EtcdStarted),
		state.MembershipEvent(two),
		{Kind: state.EventDecision, Rule: "equal.idle", Action: state.EtcdIdle},
		state.MembershipEvent(one),
		{Kind: state.EventDecision, Rule: "gone.unproved", Action: state.EtcdWait},
	}
	if got := w.told(); !reflect.DeepEqual(got, want) {
		t.Errorf("noted\n%+v, want\n%+v", got, want)
	}
	for _, e := range w.events {
		if e.Kind == state.EventDecision && e.Why == "" {
			t.Errorf("%s says no reason", e.Kind)
		}
	}
}

func TestAStopIsWaitedFor(t *testing.T) {
	w := &world{record: pairRecord(), running: true, leader: 0xa}
	k := newKeeper(t, w, state.EtcdStarted)
	k.Observer.SetMembership(state.Known(state.Membership{Ring: 9, Members: []string{"alpha"}, Quorate: true}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = k.Run(ctx); close(ended) }()
	if err := k.Ask(state.EtcdStopped); err != nil {
		t.Fatal(err)
	}
	wait, done := context.WithTimeout(t.Context(), 10*time.Second)
	defer done()
	if _, ok := k.await(wait, func(r state.EtcdReport) bool {
		return r.Wish == state.EtcdStopped && state.Is(r.Snapshot.Local.Running, false)
	}); !ok {
		t.Error("etcd was not stopped")
	}
	cancel()
	<-ended
	if !slices.Equal(w.did, []string{"stop"}) {
		t.Errorf("did %q: a host whose peer is gone stops as it is", w.did)
	}
}

func TestAMonitorRightAfterAStartKnowsOfIt(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb}
	k := newKeeper(t, w, state.EtcdNotAsked)
	meet(k) // and the peer has not spoken, so etcd has to wait
	w.clock = time.Hour
	k.turn(t.Context())
	d := &daemon{Options: Options{Now: k.Observer.Now}}
	d.kept.Store(k)
	if a := d.monitor(); a.Code != 7 {
		t.Errorf("before: %+v", a)
	}
	if err := k.Ask(state.EtcdStarted); err != nil {
		t.Fatal(err)
	}
	if a := d.monitor(); a.Code != 0 {
		t.Errorf("before the next look: %+v", a)
	}
	k.turn(t.Context())
	if a := d.monitor(); a.Code != 0 {
		t.Errorf("etcd was not asked for until now, so its being down is no failure: %+v", a)
	}
}

func TestOnlyWhoAsksIsToldOfTheManifest(t *testing.T) {
	w := &world{running: true, leader: 0xa, record: state.EtcdRecord{Seq: 1, State: state.EtcdPair, Cluster: 0xc, Member: 0xa}}
	k := newKeeper(t, w, state.EtcdNotAsked)
	k.turn(t.Context())
	d := &daemon{Options: Options{Now: k.Observer.Now}}
	d.kept.Store(k)
	if d.monitor(); w.outdated != 0 {
		t.Errorf("it was found out %d times for nobody", w.outdated)
	}
	answer := httptest.NewRecorder()
	d.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/report", nil))
	var r state.EtcdReport
	if err := json.Unmarshal(answer.Body.Bytes(), &r); err != nil || !state.Is(r.Outdated, false) || w.outdated != 1 {
		t.Errorf("%+v after %d times, %v", r.Outdated, w.outdated, err)
	}
	w.foreign = true
	if r := k.Manifest(r); !r.Snapshot.Local.Running.Known {
		t.Errorf("%+v", r)
	} else if r.Outdated = (state.Fact[bool]{}); k.Manifest(r).Outdated.Known {
		t.Error("kubelet's own etcd is of no manifest of ours")
	}
}

// TestAStatementIsToldAgainOnceItWasLost lets Pacemaker hold an older statement:
// for a moment, because packets were lost, or for good.
func TestAStatementIsToldAgainOnceItWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := func(holds string, after time.Duration) bool {
			k := &Keeper{published: "new", numbered: "new 2", toldAt: time.Now()}
			time.Sleep(after)
			k.heardSelf(holds)
			return k.published == ""
		}
		for _, c := range []struct {
			sentence string
			holds    string
			after    time.Duration
			want     bool
		}{
			{"it holds what it was told", "new 2", time.Hour, false},
			{"it was told a moment ago", "old 1", tellAgain - 1, false},
			{"it never took it", "old 1", tellAgain, true},
			{"it was restarted", "", 0, true},
		} {
			if got := told(c.holds, c.after); got != c.want {
				t.Errorf("%s: told again %t", c.sentence, got)
			}
		}
	})
}

// TestTheSameStatementIsRepeated covers a peer whose Pacemaker lost what this
// host's Pacemaker holds: as when both met, and an older statement was sent to all.
func TestTheSameStatementIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		k := newKeeper(t, w, state.EtcdStarted)
		told := func() int {
			s := state.EtcdSnapshot{Host: "alpha", Boot: "boot-2", Uptime: time.Minute, Record: state.Known(state.EtcdRecord{State: state.EtcdPair}), Pacemaker: state.EtcdPacemaker{Contact: state.Known(true), Ring: 7}}
			if err := k.publish(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			return len(w.published)
		}
		told()
		time.Sleep(repeat - 1)
		if n := told(); n != 1 {
			t.Errorf("told %d times before its time", n)
		}
		time.Sleep(time.Nanosecond)
		if n := told(); n != 2 || !reflect.DeepEqual(w.published[0], w.published[1]) {
			t.Errorf("told %d times: %+v", n, w.published)
		}
		if n := told(); n != 2 {
			t.Errorf("told again at once")
		}
	})
}
