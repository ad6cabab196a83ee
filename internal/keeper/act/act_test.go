package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// fake records what it is asked to do.
type fake struct {
	did  chan string
	fail error
	// barred is the reason why nobody may be fenced.
	barred error
	// gone is true if no data lie on the disk.
	gone bool

	mu     sync.Mutex // a fence runs beside its caller
	events []state.Event
}

func (f *fake) do(format string, args ...any) error {
	f.did <- fmt.Sprintf(format, args...)
	return f.fail
}

func (f *fake) event(e state.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

func (f *fake) told() []state.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

func (f *fake) RemoveMember(_ context.Context, id state.MemberID) error { return f.do("remove %s", id) }

func (f *fake) AddLearner(_ context.Context, url string) error { return f.do("add %s", url) }

func (f *fake) Promote(_ context.Context, id state.MemberID) error { return f.do("promote %s", id) }

func (f *fake) Mark(_ context.Context, id state.MemberID, n uint64) error {
	return f.do("mark %s %d", id, n)
}

func (f *fake) MoveLeader(_ context.Context, id state.MemberID) error { return f.do("move to %s", id) }
func (f *fake) MayFence(context.Context) error                        { return f.barred }
func (f *fake) Fence(_ context.Context, anew bool) error {
	if anew {
		return f.do("fence anew")
	}
	return f.do("fence")
}
func (f *fake) ConfirmOff(context.Context) error  { return f.do("confirm off") }
func (f *fake) GrantQuorum(context.Context) error { return f.do("grant quorum") }

func (f *fake) There() (bool, error) { return !f.gone, nil }

func (f *fake) Backup(context.Context) error {
	return errors.Join(f.do("back up"), errors.New("disk full"))
}

func (f *fake) SetAside(precious bool) (string, error) {
	if precious {
		return "/backups/x", f.do("set aside at any rate")
	}
	return "/backups/x", f.do("set aside")
}
func (f *fake) Empty(context.Context) error { return f.do("empty") }

type fakeProcess struct{ *fake }

func (f fakeProcess) Start(context.Context) error { return f.do("start etcd") }
func (f fakeProcess) Stop(context.Context) error  { return f.do("stop etcd") }
func (f fakeProcess) Kill(context.Context) error  { return f.do("kill etcd") }

type fakeStandIn struct{ *fake }

func (f fakeStandIn) Start(_ context.Context, id state.MemberID, r state.EtcdRecord) error {
	return f.do("stand in for %s by %s", id, r.TakeOver.ID)
}
func (f fakeStandIn) Stop(context.Context) error { return f.do("stop stand-in") }

func newDoer() (*Doer, *fake) {
	f := &fake{did: make(chan string, 8)}
	return &Doer{
		Etcd: f, Process: fakeProcess{f}, Copy: f, StandIn: fakeStandIn{f}, Peer: f, PeerURL: "https://peer:2380",
		WriteRecord: func(r state.EtcdRecord) error { return f.do("write %s %d", r.State, r.Seq) },
		Ring:        func() uint64 { return 7 }, Log: slog.New(slog.DiscardHandler), Event: f.event,
	}, f
}

func snapshot() state.EtcdSnapshot {
	var s state.EtcdSnapshot
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdTakingOver, Seq: 4, TakeOver: state.EtcdTakeOver{ID: "r4nd"}})
	s.Pacemaker.Ring = 7
	return s
}

func TestEachStepHasItsEffects(t *testing.T) {
	standing := snapshot()
	standing.Local.StandIn = state.Known(state.MemberID(0xb))
	stalling := snapshot()
	stalling.Local.Stalled = 21 * time.Second
	forced := snapshot()
	forced.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{Forced: state.EtcdForced{Who: "ops"}}})
	inert := snapshot()
	inert.Pacemaker.Inert = state.Known(true)
	verdict := func(a state.EtcdAction) state.EtcdVerdict { return state.EtcdVerdict{Action: a, Member: 0xb, Seq: 9} }
	for sentence, c := range map[string]struct {
		s    state.EtcdSnapshot
		v    state.EtcdVerdict
		want []string
	}{
		"waiting does nothing":                    {snapshot(), verdict(state.EtcdWait), nil},
		"etcd is started":                         {snapshot(), verdict(state.EtcdStart), []string{"start etcd"}},
		"a stand-in is stopped before etcd":       {snapshot(), verdict(state.EtcdStop), []string{"stop stand-in", "stop etcd"}},
		"an etcd that commits nothing is ended":   {stalling, verdict(state.EtcdStop), []string{"stop stand-in", "kill etcd"}},
		"a stand-in knows the take-over":          {snapshot(), verdict(state.EtcdStartStandIn), []string{"stand in for b by r4nd"}},
		"a member is removed":                     {snapshot(), verdict(state.EtcdRemove), []string{"remove b"}},
		"or by the stand-in that speaks for it":   {standing, verdict(state.EtcdRemove), nil},
		"a learner is added":                      {snapshot(), verdict(state.EtcdAddLearner), []string{"add https://peer:2380"}},
		"a learner is promoted":                   {snapshot(), verdict(state.EtcdPromote), []string{"promote b"}},
		"a marker names the record":               {snapshot(), verdict(state.EtcdMark), []string{"mark b 9"}},
		"leadership is moved":                     {snapshot(), verdict(state.EtcdMoveLeader), []string{"move to b"}},
		"a failed backup does not hold up":        {snapshot(), verdict(state.EtcdEmpty), []string{"back up", "set aside", "empty"}},
		"nor one of data that the peer may lack":  {forced, verdict(state.EtcdEmpty), []string{"back up", "set aside at any rate", "empty"}},
		"quorum is granted":                       {inert, verdict(state.EtcdGrantQuorum), []string{"grant quorum"}},
		"a lone host only confirms":               {inert, verdict(state.EtcdAskFence), []string{"confirm off"}},
		"a host that lost its peer has it fenced": {snapshot(), verdict(state.EtcdAskFence), []string{"fence"}},
		"or fenced anew":                          {snapshot(), state.EtcdVerdict{Action: state.EtcdAskFence, Anew: true}, []string{"fence anew"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			d, f := newDoer()
			if err := d.Do(t.Context(), c.s, c.v); err != nil {
				t.Fatal(err)
			}
			var did []string
			for range c.want { // a fence runs beside its caller
				select {
				case what := <-f.did:
					did = append(did, what)
				case <-time.After(5 * time.Second):
				}
			}
			if !slices.Equal(did, c.want) || len(f.did) > 0 {
				t.Errorf("did %q and %d more, want %q", did, len(f.did), c.want)
			}
			if fences := c.v.Action == state.EtcdAskFence && !state.Is(c.s.Pacemaker.Inert, true); fences != (len(f.told()) == 1 && f.told()[0].Kind == state.EventAskFence) || !fences && len(f.told()) > 0 {
				t.Errorf("noted %+v", f.told())
			}
		})
	}
}

func TestNobodyIsFencedOnTheWordOfAnotherMembership(t *testing.T) {
	d, f := newDoer()
	d.Ring = func() uint64 { return 8 }
	if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdAskFence}); err == nil || len(f.did) > 0 {
		t.Errorf("%v", err)
	}
}

func TestARecordFollowsTheOneThatWasLookedAt(t *testing.T) {
	d, f := newDoer()
	v := state.EtcdVerdict{Action: state.EtcdWriteRecord, Rule: "lead.sole", Record: &state.EtcdRecord{State: state.EtcdSole, Seq: 5}}
	if err := d.Do(t.Context(), snapshot(), v); err != nil || <-f.did != "write sole 5" {
		t.Error(err)
	}
	if got := f.told(); len(got) != 1 || got[0].Kind != state.EventRecord || got[0].State != state.EtcdSole || got[0].Seq != 5 || got[0].Rule != "lead.sole" {
		t.Errorf("noted %+v", got)
	}
	v.Record.Seq = 6
	if err := d.Do(t.Context(), snapshot(), v); err == nil || len(f.did) > 0 {
		t.Error("a record was skipped and nobody noticed")
	}
}

func TestAFirstStartIsWrittenDownBeforeIt(t *testing.T) {
	d, f := newDoer()
	v := state.EtcdVerdict{Action: state.EtcdStart, Record: &state.EtcdRecord{State: state.EtcdLearner, Seq: 5}}
	if err := d.Do(t.Context(), snapshot(), v); err != nil || <-f.did != "write learner 5" || <-f.did != "start etcd" {
		t.Error(err)
	}
	d.WriteRecord = func(state.EtcdRecord) error { return errors.New("disk full") }
	if err := d.Do(t.Context(), snapshot(), v); err == nil || len(f.did) > 0 {
		t.Error("etcd was started, and nothing says so")
	}
	if got := f.told(); len(got) != 1 {
		t.Errorf("a record that is not durable is noted: %+v", got)
	}
}

func TestAnUnknownStepIsAnError(t *testing.T) {
	d, _ := newDoer()
	if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: "hope"}); err == nil {
		t.Error("want an error")
	}
}

func TestNobodyIsFencedWhereAPersonToldPacemakerNotToAct(t *testing.T) {
	d, f := newDoer()
	f.barred = errors.New("maintenance mode")
	ask := state.EtcdVerdict{Action: state.EtcdAskFence}
	s := snapshot()
	s.Peer = "cp-2"
	for { // it runs beside its caller, who gets the error at the next call
		if err := d.Do(t.Context(), s, ask); err != nil {
			if !strings.Contains(err.Error(), "cp-2 is not fenced: maintenance mode") {
				t.Error(err)
			}
			break
		}
	}
	if len(f.did) > 0 {
		t.Errorf("%s", <-f.did)
	}
}

func TestEachStepEndsWithinItsLimit(t *testing.T) {
	for _, a := range []state.EtcdAction{
		state.EtcdWriteRecord, state.EtcdStart, state.EtcdStop, state.EtcdStartStandIn, state.EtcdStopStandIn, state.EtcdEmpty,
		state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote, state.EtcdMark, state.EtcdMoveLeader, state.EtcdGrantQuorum,
	} {
		synctest.Test(t, func(t *testing.T) {
			hang := hanging{}
			d := &Doer{
				Etcd: hang, Process: hangingProcess{}, Copy: hang, StandIn: hangingStandIn{}, Peer: hang, Log: slog.New(slog.DiscardHandler), Event: func(state.Event) {},
				WriteRecord: func(state.EtcdRecord) error { time.Sleep(Limit(state.EtcdWriteRecord)); return nil },
				Ring:        func() uint64 { return 7 },
			}
			began := time.Now()
			v := state.EtcdVerdict{Action: a, Member: 0xb, Record: &state.EtcdRecord{State: state.EtcdSole, Seq: 5}}
			_ = d.Do(t.Context(), snapshot(), v)
			if took := time.Since(began); took > Limit(a) || took == 0 {
				t.Errorf("%s took %s, its limit is %s", a, took, Limit(a))
			}
		})
	}
}

// hanging waits until its context ends.
type hanging struct{}

func wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (hanging) RemoveMember(ctx context.Context, _ state.MemberID) error { return wait(ctx) }
func (hanging) AddLearner(ctx context.Context, _ string) error           { return wait(ctx) }
func (hanging) Promote(ctx context.Context, _ state.MemberID) error      { return wait(ctx) }
func (hanging) Mark(ctx context.Context, _ state.MemberID, _ uint64) error {
	return wait(ctx)
}
func (hanging) MoveLeader(ctx context.Context, _ state.MemberID) error { return wait(ctx) }
func (hanging) MayFence(context.Context) error                         { return nil }
func (hanging) Fence(ctx context.Context, _ bool) error                { return wait(ctx) }
func (hanging) ConfirmOff(ctx context.Context) error                   { return wait(ctx) }
func (hanging) GrantQuorum(ctx context.Context) error                  { return wait(ctx) }
func (hanging) There() (bool, error)                                   { return true, nil }
func (hanging) Backup(ctx context.Context) error                       { return wait(ctx) }
func (hanging) SetAside(bool) (string, error)                          { return "", nil }
func (hanging) Empty(ctx context.Context) error                        { return wait(ctx) }

type hangingProcess struct{}

func (hangingProcess) Start(ctx context.Context) error { return wait(ctx) }
func (hangingProcess) Stop(ctx context.Context) error  { return wait(ctx) }
func (hangingProcess) Kill(ctx context.Context) error  { return wait(ctx) }

type hangingStandIn struct{}

func (hangingStandIn) Start(ctx context.Context, _ state.MemberID, _ state.EtcdRecord) error {
	return wait(ctx)
}
func (hangingStandIn) Stop(ctx context.Context) error { return wait(ctx) }

func TestACopyThatWasLostIsNotStartedFromNothing(t *testing.T) {
	f := &fake{did: make(chan string, 9), gone: true}
	d := &Doer{Process: fakeProcess{f}, Copy: f}
	if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdStart}); err == nil || len(f.did) > 0 {
		t.Errorf("did %d things, %v", len(f.did), err)
	}
}
