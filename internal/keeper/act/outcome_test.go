package act

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// steps lists the steps that end with the round which takes them.
var steps = []state.EtcdAction{
	state.EtcdWriteRecord, state.EtcdStart, state.EtcdStop, state.EtcdStartStandIn, state.EtcdStopStandIn, state.EtcdEmpty,
	state.EtcdRemove, state.EtcdAddLearner, state.EtcdPromote, state.EtcdMark, state.EtcdMoveLeader, state.EtcdGrantQuorum,
}

func TestAStepThatFailsIsToldByItsError(t *testing.T) {
	for _, a := range steps {
		d, f := newDoer()
		f.fail = errors.New("no quorum")
		v := state.EtcdVerdict{Action: a, Member: 0xb}
		if a == state.EtcdWriteRecord {
			v.Record = &state.EtcdRecord{Seq: 5}
		}
		if err := d.Do(t.Context(), snapshot(), v); !errors.Is(err, f.fail) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestEitherPartOfAStopThatFailsIsTold(t *testing.T) {
	for _, part := range []string{"stand-in", "etcd"} {
		d, f := newDoer()
		fails := &fake{did: make(chan string, 8), fail: errors.New(part)}
		d.StandIn, d.Process = fakeStandIn{f}, fakeProcess{f}
		if part == "etcd" {
			d.Process = fakeProcess{fails}
		} else {
			d.StandIn = fakeStandIn{fails}
		}
		if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdStop}); !errors.Is(err, fails.fail) || len(f.did)+len(fails.did) != 2 {
			t.Errorf("%s: %v, %d ends were tried", part, err, len(f.did)+len(fails.did))
		}
	}
}

func TestEachStepHasItsLimit(t *testing.T) {
	want := map[state.EtcdAction]time.Duration{
		state.EtcdWriteRecord: 15 * time.Second, state.EtcdStart: 35 * time.Second, state.EtcdStartStandIn: 20 * time.Second,
		state.EtcdStop: 50 * time.Second, state.EtcdStopStandIn: 25 * time.Second, state.EtcdEmpty: 50 * time.Second,
		state.EtcdRemove: 6 * time.Second, state.EtcdAddLearner: 6 * time.Second, state.EtcdPromote: 6 * time.Second,
		state.EtcdMark: 6 * time.Second, state.EtcdMoveLeader: 6 * time.Second, state.EtcdGrantQuorum: 6 * time.Second,
		state.EtcdAskFence: time.Second, state.EtcdIdle: time.Second, state.EtcdWait: time.Second, state.EtcdAskHuman: time.Second, "": time.Second,
	}
	for a, limit := range want {
		if got := Limit(a); got != limit {
			t.Errorf("%q: %s, want %s", a, got, limit)
		}
	}
}

// slow is a host on which everything hangs until its context ends.
type slow struct{ *fake }

func hang(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func (slow) RemoveMember(ctx context.Context, _ state.MemberID) error   { return hang(ctx) }
func (slow) AddLearner(ctx context.Context, _ string) error             { return hang(ctx) }
func (slow) Promote(ctx context.Context, _ state.MemberID) error        { return hang(ctx) }
func (slow) Mark(ctx context.Context, _ state.MemberID, _ uint64) error { return hang(ctx) }
func (slow) MoveLeader(ctx context.Context, _ state.MemberID) error     { return hang(ctx) }
func (slow) GrantQuorum(ctx context.Context) error                      { return hang(ctx) }
func (slow) Empty(ctx context.Context) error                            { return hang(ctx) }

type slowEnds struct{ *fake }

func (slowEnds) Start(ctx context.Context) error { return hang(ctx) }
func (slowEnds) Stop(ctx context.Context) error  { return hang(ctx) }
func (slowEnds) Kill(ctx context.Context) error  { return hang(ctx) }

type slowStandIn struct{ *fake }

func (slowStandIn) Start(ctx context.Context, _ state.MemberID, _ state.EtcdRecord) error {
	return hang(ctx)
}
func (slowStandIn) Stop(ctx context.Context) error { return hang(ctx) }

func TestAStepThatHangsEndsWithinItsLimit(t *testing.T) {
	for _, a := range steps[1:] {
		synctest.Test(t, func(t *testing.T) {
			d, f := newDoer()
			d.Etcd, d.Copy, d.Peer, d.Process, d.StandIn = slow{f}, slow{f}, slow{f}, slowEnds{f}, slowStandIn{f}
			begin := time.Now()
			err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: a, Member: 0xb})
			took := time.Since(begin)
			if !errors.Is(err, context.DeadlineExceeded) || took > Limit(a) || a == state.EtcdMark && took != markTime {
				t.Errorf("%s: %v after %s", a, err, took)
			}
		})
	}
}

func TestARecordIsWrittenOfAVerdictThatHoldsOne(t *testing.T) {
	d, f := newDoer()
	err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdWriteRecord})
	if err == nil || err.Error() != "the verdict holds no record" || len(f.did) > 0 {
		t.Errorf("%v", err)
	}
}

func TestAnEtcdWithoutItsDataIsNotStarted(t *testing.T) {
	d, f := newDoer()
	f.gone = true
	if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdStart}); err == nil || len(f.did) > 0 {
		t.Errorf("%v", err)
	}
}

// fenced has a peer fenced and returns the error that the next try tells.
func fenced(t *testing.T, change func(*Doer, *fake)) error {
	t.Helper()
	var err error
	synctest.Test(t, func(t *testing.T) {
		d, f := newDoer()
		change(d, f)
		s := snapshot()
		s.Peer = "beta"
		if err := d.Do(t.Context(), s, state.EtcdVerdict{Action: state.EtcdAskFence}); err != nil {
			t.Errorf("at first: %v", err)
		}
		synctest.Wait()
		err = d.Do(t.Context(), s, state.EtcdVerdict{Action: state.EtcdAskFence})
		synctest.Wait()
	})
	return err
}

func TestTheNextTryTellsWhyTheLastFenceFailed(t *testing.T) {
	if err := fenced(t, func(_ *Doer, f *fake) { f.fail = errors.New("no device") }); err == nil || err.Error() != "no device" {
		t.Errorf("%v", err)
	}
	if err := fenced(t, func(_ *Doer, f *fake) { f.barred = errors.New("maintenance") }); err == nil || err.Error() != "beta is not fenced: maintenance" {
		t.Errorf("%v", err)
	}
	if err := fenced(t, func(*Doer, *fake) {}); err != nil {
		t.Errorf("it succeeded: %v", err)
	}
}

func TestAMembershipThatChangesBeforeTheFenceStopsIt(t *testing.T) {
	asked := 0
	err := fenced(t, func(d *Doer, f *fake) {
		d.Ring = func() uint64 {
			if asked++; asked == 2 { // when Pacemaker has said that it may
				return 8
			}
			return 7
		}
		f.barred = nil
	})
	if err == nil || !strings.Contains(err.Error(), "the membership changed while Pacemaker was asked") {
		t.Errorf("%v", err)
	}
}

func TestOneFenceRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s single
		runs, done := 0, make(chan struct{})
		for range 3 {
			if err := s.begin(func() error { runs++; <-done; return errors.New("failed") }); err != nil {
				t.Errorf("while it runs: %v", err)
			}
			synctest.Wait()
		}
		if runs != 1 {
			t.Errorf("%d at once", runs)
		}
		close(done)
		synctest.Wait()
		if err := s.begin(func() error { return nil }); err == nil {
			t.Error("the error of the last one is lost")
		}
		synctest.Wait()
		if err := s.begin(func() error { return nil }); err != nil {
			t.Errorf("an error of before the last one: %v", err)
		}
		synctest.Wait()
	})
}

// unsure does not know whether the data are there.
type unsure struct{ *fake }

func (unsure) There() (bool, error) { return true, errors.New("the disk hangs") }

func TestAnEtcdIsNotStartedWhereNobodyKnowsWhetherItsDataAreThere(t *testing.T) {
	d, f := newDoer()
	d.Copy = unsure{f}
	err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdStart})
	if err == nil || !strings.Contains(err.Error(), "the disk hangs") || len(f.did) > 0 {
		t.Errorf("%v", err)
	}
}

// TestAVerdictThatOnlyWaitsDoesNothingAndIsNoError: idle, wait and a question to an
// administrator are steps that are known.
func TestAVerdictThatOnlyWaitsDoesNothingAndIsNoError(t *testing.T) {
	for _, a := range []state.EtcdAction{state.EtcdIdle, state.EtcdWait, state.EtcdAskHuman} {
		d, f := newDoer()
		if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: a}); err != nil || len(f.did) > 0 {
			t.Errorf("%s: %v, %d steps", a, err, len(f.did))
		}
	}
}

// TestAStandInTakesOverOnlyTheRemovalOfItsMember: every other change is made here,
// and the removal of another member too.
func TestAStandInTakesOverOnlyTheRemovalOfItsMember(t *testing.T) {
	s := snapshot()
	s.Local.StandIn = state.Known(state.MemberID(0xb))
	for _, c := range []struct {
		action state.EtcdAction
		member state.MemberID
		does   string
	}{
		{state.EtcdRemove, 0xb, ""},
		{state.EtcdRemove, 0xc, "remove c"},
		{state.EtcdPromote, 0xb, "promote b"},
		{state.EtcdMark, 0xb, "mark b 0"},
		{state.EtcdMoveLeader, 0xb, "move to b"},
		{state.EtcdAddLearner, 0xb, "add https://peer:2380"},
	} {
		d, f := newDoer()
		if err := d.Do(t.Context(), s, state.EtcdVerdict{Action: c.action, Member: c.member}); err != nil {
			t.Errorf("%s: %v", c.action, err)
		}
		close(f.did)
		if got := <-f.did; got != c.does {
			t.Errorf("%s of %s: did %q", c.action, c.member, got)
		}
	}
}

func TestABackupThatFailsIsLoggedAndOneThatSucceedsIsNot(t *testing.T) {
	for _, fail := range []error{nil, errors.New("no space")} {
		var log bytes.Buffer
		d, f := newDoer()
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
		d.Copy = backup{f, fail}
		if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdEmpty}); err != nil {
			t.Error(err)
		}
		did := []string{<-f.did}
		if fail != nil {
			did = append(did, <-f.did)
		}
		if logged := strings.Contains(log.String(), "no backup of the data directory") && strings.Contains(log.String(), "path=/backups/x"); logged != (fail != nil) || did[0] == "empty" != (fail == nil) || did[len(did)-1] != "empty" {
			t.Errorf("a backup with %v: did %q, %q", fail, did, log.String())
		}
	}
}

// TestDataThatCannotBeKeptAreRemovedUnlessThePeerMayLackThem: a person has overruled them then.
func TestDataThatCannotBeKeptAreRemovedUnlessThePeerMayLackThem(t *testing.T) {
	for _, forced := range []string{"", "ops"} {
		var log bytes.Buffer
		d, f := newDoer()
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
		d.Copy = full{f}
		s := snapshot()
		s.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{Forced: state.EtcdForced{Who: forced}}})
		err := d.Do(t.Context(), s, state.EtcdVerdict{Action: state.EtcdEmpty})
		if kept := len(f.did) == 1; kept != (forced != "") || kept != (err != nil) || kept == strings.Contains(log.String(), "no room") {
			t.Errorf("forced by %q: %v, %d steps, %q", forced, err, len(f.did), log.String())
		}
	}
}

// full is a copy that nothing can keep.
type full struct{ *fake }

func (full) SetAside(bool) (string, error) { return "", errors.New("no room") }

// TestABackupThatIsBrokenOffLeavesTheData: Pacemaker stops etcd, or the keeper ends.
// One that only takes too long does not.
func TestABackupThatIsBrokenOffLeavesTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, f := newDoer()
		d.Copy = endless{f}
		stop := errors.New("Pacemaker stops etcd")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(stop) })
		began := time.Now()
		if err := d.Do(ctx, snapshot(), state.EtcdVerdict{Action: state.EtcdEmpty}); !errors.Is(err, stop) || len(f.did) > 0 || time.Since(began) != time.Second {
			t.Errorf("%v after %s, and it did %d things", err, time.Since(began), len(f.did))
		}
		began = time.Now()
		if err := d.Do(t.Context(), snapshot(), state.EtcdVerdict{Action: state.EtcdEmpty}); err != nil || <-f.did != "set aside" || <-f.did != "empty" || time.Since(began) != copyTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// endless is a copy whose backup takes until its context ends.
type endless struct{ *fake }

func (endless) Backup(ctx context.Context) error { return hang(ctx) }

// backup is a copy whose backup fails or not.
type backup struct {
	*fake
	err error
}

func (b backup) Backup(context.Context) error { return b.err }
