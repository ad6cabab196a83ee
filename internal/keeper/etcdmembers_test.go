package keeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// changing is a client whose changes end as given.
type changing struct {
	etcdClient
	err error
}

func (c changing) AddLearner(context.Context, string) (state.MemberID, error) { return 7, c.err }
func (c changing) Promote(context.Context, state.MemberID) error              { return c.err }

// learner is the etcd of the other host, as it answers.
type learner struct {
	status etcd.MemberStatus
	err    error
}

func (l learner) Status(context.Context) (etcd.MemberStatus, error) { return l.status, l.err }

func none() uint64 { return 0 }

func large() int64 { return etcdmember.SmallDatabase }

// docs/facts/loss.md#hard-cases-of-loss, L87.
func TestL87ALearnerThatLacksTooMuchIsPromotedLater(t *testing.T) {
	promoted := errors.New("etcd was asked")
	const far = 10_000_000
	for what, c := range map[string]struct {
		answer learner
		asks   bool
	}{
		"it has applied nearly all":   {learner{status: etcd.MemberStatus{Member: 7, RaftIndex: far, Applied: far - 10}}, true},
		"it lacks too much":           {learner{status: etcd.MemberStatus{Member: 7, RaftIndex: far - far/10, Applied: far - far/10}}, false},
		"it has all, and applies it":  {learner{status: etcd.MemberStatus{Member: 7, RaftIndex: far}}, false},
		"it does not answer":          {learner{err: errors.New("no route")}, false},
		"another member answers":      {learner{status: etcd.MemberStatus{Member: 8, RaftIndex: far, Applied: far}}, false},
		"it has more than was looked": {learner{status: etcd.MemberStatus{Member: 7, RaftIndex: far + 10, Applied: far + 10}}, true},
	} {
		m := membership{changing{err: promoted}, &silence{}, c.answer, func() uint64 { return far }, large}
		if err := m.Promote(t.Context(), 7); errors.Is(err, promoted) != c.asks {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A learner whose port for clients is filtered becomes a voter in the end, by etcd's word alone; one that
// says now and then that it is not ready does not.
func TestALearnerThatSaysNothingIsJudgedByEtcdInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		promoted := errors.New("etcd was asked")
		mute, applies := learner{err: errors.New("no route")}, learner{status: etcd.MemberStatus{Member: 7, RaftIndex: 9000}}
		s := &silence{}
		for _, step := range []struct {
			what   string
			after  time.Duration
			member state.MemberID
			answer learner
			asks   bool
		}{
			{"silent at once", 0, 7, mute, false},
			{"silent for nearly long enough", etcdmember.SilentLearner - time.Second, 7, mute, false},
			{"it applies", 0, 7, applies, false},
			{"silent again", time.Second, 7, mute, false},
			{"a new silence", etcdmember.SilentLearner - time.Second, 7, mute, false},
			{"another learner", time.Second, 9, mute, false},
			{"which is silent for long", etcdmember.SilentLearner, 9, mute, true},
		} {
			time.Sleep(step.after)
			m := membership{changing{err: promoted}, s, step.answer, func() uint64 { return 9000 }, large}
			if err := m.Promote(t.Context(), step.member); errors.Is(err, promoted) != step.asks {
				t.Errorf("%s: %v", step.what, err)
			}
		}
	})
}

// A learner of a small database is not waited for: it has applied it before it serves clients.
func TestALearnerOfASmallDatabaseThatSaysNothingIsJudgedByEtcdAtOnce(t *testing.T) {
	promoted := errors.New("etcd was asked")
	small := func() int64 { return etcdmember.SmallDatabase - 1 }
	m := membership{changing{err: promoted}, &silence{}, learner{err: errors.New("no route")}, none, small}
	if err := m.Promote(t.Context(), 7); !errors.Is(err, promoted) {
		t.Errorf("%v", err)
	}
	m.peer = learner{status: etcd.MemberStatus{Member: 7, RaftIndex: 9}}
	if err := m.Promote(t.Context(), 7); err != nil {
		t.Errorf("it says that it applies: %v", err)
	}
}

func TestAChangeThatEtcdRefusesIsTold(t *testing.T) {
	failed := errors.New("no leader")
	ready := learner{status: etcd.MemberStatus{Member: 7, Applied: 1}}
	m := membership{changing{err: failed}, &silence{}, ready, none, large}
	if err := m.AddLearner(t.Context(), "url"); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if err := m.Promote(t.Context(), 7); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	m = membership{changing{}, &silence{}, ready, none, large}
	if err := errors.Join(m.AddLearner(t.Context(), "url"), m.Promote(t.Context(), 7)); err != nil {
		t.Errorf("%v", err)
	}
}
