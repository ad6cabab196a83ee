package keeper

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// membership changes the members of etcd. A promotion that is too early, by etcd's word or
// because the learner lacks too much, is no error here: the next round tries again.
type membership struct {
	etcdClient
	silence *silence
	// peer asks etcd of the other host, and reached returns where the log of this host's
	// etcd ended at the last look.
	peer interface {
		Status(context.Context) (etcd.MemberStatus, error)
	}
	reached func() uint64
	// size returns the size of the database of this host's etcd at the last look, in bytes.
	size func() int64
}

func (m membership) AddLearner(ctx context.Context, peerURL string) error {
	_, err := m.etcdClient.AddLearner(ctx, peerURL)
	return err
}

func (m membership) Promote(ctx context.Context, id state.MemberID) error {
	switch s, err := m.peer.Status(ctx); {
	case err != nil || s.Member != id:
		if m.silence.of(id, time.Now()) < etcdmember.SilentFor(m.size()) {
			return nil
		}
	case !etcdmember.MayVote(m.reached(), s.Applied):
		m.silence.ends()
		return nil
	}
	err := m.etcdClient.Promote(ctx, id)
	if etcd.NotInSync(err) {
		return nil
	}
	return err
}

// silence is since when a learner says nothing of itself. Only the loop uses it.
type silence struct {
	learner state.MemberID
	since   time.Time
}

// of returns for how long a learner has said nothing, and begins to count if it did before.
func (s *silence) of(learner state.MemberID, now time.Time) time.Duration {
	if s.learner != learner {
		s.learner, s.since = learner, now
	}
	return now.Sub(s.since)
}

func (s *silence) ends() { s.learner = 0 }
