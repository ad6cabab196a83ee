package keeper

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestHowSoonTheNextRoundFollows(t *testing.T) {
	const at = time.Hour
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		wish     state.EtcdWish
		action   state.EtcdAction
		moved    time.Duration // since the last change
		failures int
		err      error
		again    bool
		pause    time.Duration
	}{
		"a record, by Pacemaker's wish":      {state.EtcdStarted, state.EtcdWriteRecord, at, 0, nil, true, busy},
		"a start":                            {state.EtcdStarted, state.EtcdStart, at, 0, nil, true, busy},
		"a stop":                             {state.EtcdStopped, state.EtcdStop, at, 0, nil, true, busy},
		"another step":                       {state.EtcdStarted, state.EtcdMark, at, 0, nil, false, busy},
		"a step that nobody wished for":      {state.EtcdNotAsked, state.EtcdWriteRecord, at, 0, nil, false, quiet},
		"a wait of an etcd that is to run":   {state.EtcdStarted, state.EtcdWait, at, 0, nil, false, busy},
		"a question":                         {state.EtcdStarted, state.EtcdAskHuman, at, 0, nil, false, busy},
		"a wait of one that is to be down":   {state.EtcdStopped, state.EtcdWait, at, 0, nil, false, quiet},
		"nothing to do":                      {state.EtcdStarted, state.EtcdIdle, at, 0, nil, false, quiet},
		"nothing to do after a change":       {state.EtcdStarted, state.EtcdIdle, lively - 1, 0, nil, false, busy},
		"nothing to do, the change was long": {state.EtcdStarted, state.EtcdIdle, lively, 0, nil, false, quiet},
		"a first failure":                    {state.EtcdStarted, state.EtcdStart, at, 0, failed, false, busy},
		"a third failure":                    {state.EtcdStarted, state.EtcdStart, at, 2, failed, false, 3 * busy},
		"failure after failure":              {state.EtcdStarted, state.EtcdStart, at, 100, failed, false, retryAfter},
	} {
		k := &Keeper{lastMove: 2*at - c.moved, failures: c.failures, wish: state.EtcdWishNote{Wish: c.wish}}
		again, pause := k.next(state.EtcdSnapshot{Uptime: 2 * at}, state.EtcdVerdict{Action: c.action}, c.err)
		if again != c.again || pause != c.pause {
			t.Errorf("%s: %t, %s", name, again, pause)
		}
		if want := c.failures + 1; c.err != nil && k.failures != want || c.err == nil && k.failures != 0 {
			t.Errorf("%s: %d failures in a row", name, k.failures)
		}
	}
}

func TestWhatMayBeDoneBeforePacemakerAsks(t *testing.T) {
	inert, lively := state.EtcdSnapshot{}, state.EtcdSnapshot{}
	inert.Pacemaker.Inert, lively.Pacemaker.Inert = state.Known(true), state.Known(false)
	allowed := []state.EtcdAction{state.EtcdAskFence, state.EtcdGrantQuorum, state.EtcdWriteRecord}
	for _, a := range []state.EtcdAction{
		state.EtcdWriteRecord, state.EtcdStart, state.EtcdStop, state.EtcdStartStandIn, state.EtcdStopStandIn, state.EtcdEmpty, state.EtcdRemove,
		state.EtcdAddLearner, state.EtcdPromote, state.EtcdMark, state.EtcdMoveLeader, state.EtcdGrantQuorum, state.EtcdAskFence,
	} {
		v := state.EtcdVerdict{Action: a}
		for _, wish := range []state.EtcdWish{state.EtcdNotAsked, state.EtcdStarted, state.EtcdStopped} {
			for _, foreign := range []bool{false, true} {
				k := &Keeper{Process: &world{foreign: foreign}}
				asked := wish != state.EtcdNotAsked
				want := (asked || slices.Contains(allowed, a)) && (a != state.EtcdEmpty || !foreign)
				if got := k.permitted(state.EtcdWishNote{Wish: wish}, inert, v); got != want {
					t.Errorf("%s, wish %s, kubelet's etcd %t: %t", a, wish, foreign, got)
				}
				if got := k.permitted(state.EtcdWishNote{Wish: wish}, lively, v); got != (want && asked) {
					t.Errorf("%s of a host that sees its peer, wish %s: %t", a, wish, got)
				}
			}
		}
	}
}

// newManifest is a process whose manifest has changed.
type newManifest struct {
	*world
	err error
}

func (m newManifest) Outdated() (bool, error) { m.outdated++; return true, m.err }

func TestEtcdIsRestartedByANewManifestWhereAllIsWell(t *testing.T) {
	unread := errors.New("no such file")
	for name, c := range map[string]struct {
		wish     state.EtcdWish
		action   state.EtcdAction
		leader   state.MemberID
		moved    time.Duration
		foreign  bool
		err      error
		asked    int
		restarts int
	}{
		"all is well":                 {state.EtcdStarted, state.EtcdIdle, 0xb, lively, false, nil, 1, 1},
		"something changed just now":  {state.EtcdStarted, state.EtcdIdle, 0xb, lively - 1, false, nil, 0, 0},
		"no leader":                   {state.EtcdStarted, state.EtcdIdle, 0, lively, false, nil, 0, 0},
		"something is to be done":     {state.EtcdStarted, state.EtcdWait, 0xb, lively, false, nil, 0, 0},
		"it is to be down":            {state.EtcdStopped, state.EtcdIdle, 0xb, lively, false, nil, 0, 0},
		"nobody asked for it":         {state.EtcdNotAsked, state.EtcdIdle, 0xb, lively, false, nil, 0, 0},
		"kubelet's":                   {state.EtcdStarted, state.EtcdIdle, 0xb, lively, true, nil, 0, 0},
		"a manifest that is not read": {state.EtcdStarted, state.EtcdIdle, 0xb, lively, false, unread, 1, 0},
		"another wish since":          {state.EtcdStarted, state.EtcdIdle, 0xb, lively, false, nil, 1, 0},
	} {
		w := &world{running: true, foreign: c.foreign}
		k := newKeeper(t, w, c.wish)
		k.Process, k.lastMove = newManifest{w, c.err}, 2*lively-c.moved
		s := state.EtcdSnapshot{Uptime: 2 * lively} // too early for an etcd that does not answer
		s.Local.Running, s.Local.Leader = state.Known(true), state.Known(c.leader)
		wish := k.Wish()
		if name == "another wish since" {
			wish.At--
		}
		err := k.care(t.Context(), wish, s, state.EtcdVerdict{Action: c.action})
		if !errors.Is(err, c.err) || w.outdated != c.asked || len(w.did) != c.restarts {
			t.Errorf("%s: asked %d times, did %q, %v", name, w.outdated, w.did, err)
		}
	}
}

func TestAProblemIsLoggedOnceAndReportedWhileItLasts(t *testing.T) {
	var log bytes.Buffer
	k := newKeeper(t, &world{}, state.EtcdStarted)
	k.Log = slog.New(slog.NewTextHandler(&log, nil))
	k.Reach = func() state.Reach { return state.Reach{State: state.ReachYes, Why: "gateway"} }
	k.ruleSince = 50 * time.Minute
	full, other := errors.New("the disk is full"), errors.New("no answer")
	v := state.EtcdVerdict{Action: state.EtcdWait, Rule: "lead.wait"}
	for i, err := range []error{nil, full, full, other, nil, full} {
		k.tell(k.Wish(), state.EtcdSnapshot{Host: "alpha", Uptime: time.Hour}, v, err)
		r, _ := k.Report()
		if want := ""; err != nil && r.Problem != err.Error() || err == nil && r.Problem != want {
			t.Errorf("%d: %q", i, r.Problem)
		}
		if r.Since != 10*time.Minute || r.Verdict.Rule != v.Rule || r.Wish != state.EtcdStarted || r.Snapshot.Host != "alpha" || r.Reach.Why != "gateway" {
			t.Errorf("%+v", r)
		}
	}
	if n := strings.Count(log.String(), "a round failed"); n != 3 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestWhoWaitsForAReportGetsEachOnce(t *testing.T) {
	k := newKeeper(t, &world{}, state.EtcdStarted)
	_, changed := k.Report()
	k.tell(k.Wish(), state.EtcdSnapshot{}, state.EtcdVerdict{Rule: "one"}, nil)
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a new report")
	}
	if r, again := k.Report(); r.Verdict.Rule != "one" {
		t.Errorf("%+v", r)
	} else {
		select {
		case <-again:
			t.Error("the present report passes for a newer one")
		default:
		}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if r, ok := k.await(ctx, func(state.EtcdReport) bool { return false }); ok || r.Verdict.Rule != "one" {
		t.Errorf("%+v", r)
	}
	if _, ok := k.await(ctx, func(r state.EtcdReport) bool { return r.Verdict.Rule == "one" }); !ok {
		t.Error("a report that fits is not taken")
	}
}

func TestAWishIsStoredBeforeItCounts(t *testing.T) {
	var saved []state.EtcdWishNote
	w := &world{}
	k := newKeeper(t, w, state.EtcdNotAsked)
	k.SaveWish = func(n state.EtcdWishNote) error { saved = append(saved, n); return nil }
	woken := func() bool {
		select {
		case <-k.wake:
			return true
		default:
			return false
		}
	}
	if err := k.Ask(state.EtcdStarted); err != nil || !woken() {
		t.Errorf("%v", err)
	}
	first := k.Wish()
	if err := k.Ask(state.EtcdStarted); err != nil || !woken() || k.Wish() != first {
		t.Errorf("asked for the same: %v, %+v", err, k.Wish())
	}
	if len(saved) != 2 || saved[0] != first || saved[1] != first || first.Wish != state.EtcdStarted || first.Boot != "boot-2" || first.At == 0 || len(w.events) != 1 {
		t.Errorf("%+v, %+v", saved, w.events)
	}
	k.SaveWish = func(state.EtcdWishNote) error { return errors.New("the disk is full") }
	if err := k.Ask(state.EtcdStopped); err == nil || !strings.Contains(err.Error(), "the disk is full") || k.Wish() != first || woken() {
		t.Errorf("a wish that is not stored counts: %v, %+v", err, k.Wish())
	}
	k.Observer.Boot = func() (string, time.Duration, error) { return "", 0, errors.New("no /proc") }
	if err := k.Ask(state.EtcdStopped); err == nil || err.Error() != "no /proc" {
		t.Errorf("%v", err)
	}
}

func TestAStatementThatWasNotSentIsSentAgain(t *testing.T) {
	w := &world{record: pairRecord(), leader: 0xb, running: true, peer: peerPair()}
	k := newKeeper(t, w, state.EtcdStarted)
	meet(k)
	s, err := k.Observer.Snapshot(t.Context(), k.Wish())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.publish(t.Context(), s); err != nil || len(w.published) != 1 || k.lastMove != s.Uptime {
		t.Fatalf("%v, %d", err, len(w.published))
	}
	first := w.published[0].Serial
	if err := k.publish(t.Context(), s); err != nil || len(w.published) != 1 {
		t.Errorf("the same is sent twice: %v", err)
	}
	s.Record.Value.Seq++
	w.publishErr = errors.New("no answer")
	if err := k.publish(t.Context(), s); err == nil || err.Error() != "publish the statement to the peer: no answer" || k.published != "" || k.numbered != "" {
		t.Errorf("%v, %q", err, k.published)
	}
	w.publishErr = nil
	if err := k.publish(t.Context(), s); err != nil || len(w.published) != 2 || w.published[1].Serial <= first || w.published[1].Record.Seq != s.Record.Value.Seq {
		t.Errorf("%v, %+v", err, w.published)
	}
	s.Pacemaker.Ring, s.Record.Value.Seq = 0, 99
	if err := k.publish(t.Context(), s); err != nil || len(w.published) != 2 {
		t.Errorf("without a ring there is nobody to tell: %v, %d", err, len(w.published))
	}
}

func TestARepetitionThatFailsIsTriedAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, fails := 0, errors.New("no answer")
		k := &Keeper{numbered: "x", toldAt: time.Now(), Publish: func(_ context.Context, text string) error {
			if sent++; text != "x" {
				t.Errorf("%q", text)
			}
			return fails
		}}
		time.Sleep(repeat - 1)
		if err := k.repeats(t.Context()); err != nil || sent != 0 {
			t.Errorf("before its time: %v, %d", err, sent)
		}
		time.Sleep(time.Nanosecond)
		if err := k.repeats(t.Context()); !errors.Is(err, fails) || sent != 1 {
			t.Errorf("at its time: %v, %d", err, sent)
		}
		if err := k.repeats(t.Context()); err != nil || sent != 1 {
			t.Errorf("right after: %v, %d", err, sent)
		}
		k.numbered = ""
		time.Sleep(repeat)
		if err := k.repeats(t.Context()); err != nil || sent != 1 {
			t.Errorf("nothing was sent yet: %v, %d", err, sent)
		}
	})
}

func TestAChangeOfRuleIsNotedOnce(t *testing.T) {
	w := &world{}
	k := newKeeper(t, w, state.EtcdStarted)
	for i, rule := range []string{"a", "a", "b", "a"} {
		k.note(state.EtcdSnapshot{Uptime: time.Duration(i+1) * time.Hour}, state.EtcdVerdict{Rule: rule, Action: state.EtcdWait})
		if want := []time.Duration{time.Hour, time.Hour, 3 * time.Hour, 4 * time.Hour}[i]; k.ruleSince != want || k.lastMove != want {
			t.Errorf("%d: since %s, moved at %s", i, k.ruleSince, k.lastMove)
		}
	}
	if len(w.events) != 3 {
		t.Errorf("%+v", w.events)
	}
}

func TestARoundThatSeesNothingSaysSo(t *testing.T) {
	w := &world{}
	k := newKeeper(t, w, state.EtcdStarted)
	k.Observer.Boot = func() (string, time.Duration, error) { return "", 0, errors.New("no /proc") }
	again, pause := k.round(t.Context())
	r, _ := k.Report()
	if again || pause != quiet || r.Verdict.Rule != "unseen" || r.Verdict.Action != state.EtcdWait || !strings.Contains(r.Problem, "no /proc") || len(w.did) > 0 {
		t.Errorf("%t, %s, %+v", again, pause, r)
	}
}

func TestOnlyAnEtcdOfOursThatRunsHasAManifestToCompare(t *testing.T) {
	for name, c := range map[string]struct {
		foreign bool
		running state.Fact[bool]
		err     error
		want    state.Fact[bool]
	}{
		"ours":           {false, state.Known(true), nil, state.Known(true)},
		"kubelet's":      {true, state.Known(true), nil, state.Fact[bool]{}},
		"down":           {false, state.Known(false), nil, state.Fact[bool]{}},
		"nobody knows":   {false, state.Fact[bool]{}, nil, state.Fact[bool]{}},
		"it is not read": {false, state.Known(true), errors.New("no such file"), state.Fact[bool]{}},
	} {
		k := &Keeper{Process: newManifest{&world{foreign: c.foreign}, c.err}}
		var r state.EtcdReport
		r.Snapshot.Local.Running = c.running
		if got := k.Manifest(r).Outdated; got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAPartOfARoundIsHungOnceItsTimeAndSomeMoreHavePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Keeper{}
		begin, end := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- k.within(t.Context(), "a step", time.Second, func(ctx context.Context) error {
				close(begin)
				<-end
				return context.Cause(ctx)
			})
		}()
		<-begin
		time.Sleep(time.Second + slack - 1)
		if hung := k.Hung(); hung != "" {
			t.Errorf("too early: %q", hung)
		}
		time.Sleep(time.Nanosecond)
		if hung := k.Hung(); hung != "a step" {
			t.Errorf("%q", hung)
		}
		close(end)
		if err := <-done; err == nil || err.Error() != "a step took longer than 1s" || k.Hung() != "" {
			t.Errorf("%v, %q", err, k.Hung())
		}
	})
}

func TestAFaultOfThePeerTellsTheFenceAgentAndIsNotKept(t *testing.T) {
	if etcdmember.Fault(stalledBy("x").Snapshot) == "" {
		t.Fatal("the peer of this test is at fault")
	}
	var log bytes.Buffer
	r := newRace(true, func() time.Duration { return time.Hour }, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		r.decide(state.RaceRequest{Target: "alpha"}, stalledBy("x"))
	}
	if n := strings.Count(log.String(), "race to fence"); n != 1 || r.side.Fault != "" {
		t.Errorf("logged %d times, %+v", n, r.side)
	}
}

func TestAPromiseThatIsMadeOrHeardIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	now := time.Hour
	r := newRace(false, func() time.Duration { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	r.setReach(state.Reach{State: state.ReachNo, Why: "no signal"})
	r.setReach(state.Reach{State: state.ReachNo, Why: "no signal", Doubt: true})
	for range 3 {
		r.answer(false)
	}
	r.setMembership(anyRing, true)
	r.setMembership(anyRing, false)
	promises := 0
	r.promised = func() { promises++ }
	gives := time.Minute
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) { return state.RaceAnswer{GivesWay: gives}, nil }
	for range 3 {
		r.askOnce(t.Context())
	}
	gives = 0
	r.askOnce(t.Context())
	for text, want := range map[string]int{"msg=reach": 1, "this host yields to the peer": 1, "the peer yields": 1} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%q: logged %d times", text, n)
		}
	}
	if promises != 3 || r.side.Given != now+time.Minute {
		t.Errorf("%d promises, until %s", promises, r.side.Given)
	}
}

func TestAPeerThatDoesNotAnswerIsLoggedOncePerLoss(t *testing.T) {
	var log bytes.Buffer
	r := newRace(false, func() time.Duration { return time.Hour }, slog.New(slog.NewTextHandler(&log, nil)))
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) { return state.RaceAnswer{}, errors.New("off") }
	for range 2 {
		r.setMembership(anyRing, true)
		r.setMembership(anyRing, false)
		for range 3 {
			r.askOnce(t.Context())
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r.setMembership(anyRing, true)
	r.setMembership(anyRing, false)
	r.askOnce(ended)
	if n := strings.Count(log.String(), "no answer from the peer"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
