package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// offers makes the peer lead alone and list a learner, d, beside itself.
func offers(name string) change {
	return func(s *state.EtcdSnapshot) {
		peer(state.EtcdSole)(s)
		peerHeads(s)
		peerMembers(beta, state.EtcdMember{ID: 0xd, Learner: true, Name: name})(s)
	}
}

func yields(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Record.Value.Yields = id }
}

func member(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Record.Value.Member = id }
}

// TestALearnersIdIsUsedOnce: etcd panics where an empty data directory starts under
// an id that has acknowledged something, and the leader never forgets that it has.
func TestALearnersIdIsUsedOnce(t *testing.T) {
	for _, c := range []struct {
		sentence string
		snapshot state.EtcdSnapshot
		rule     string
		member   state.MemberID
		yields   state.MemberID
	}{
		{"an id that was offered after another was given up is accepted, and the other is remembered", host(empty, offers(""), yields(0xa)), "follow.accept", 0xd, 0xa},
		{"the first start of it is written down before it", host(empty, offers(""), yields(0xa), member(0xd)), "follow.join", 0xd, 0},
		{"an id that was given up is not accepted again, though its name was never published", host(empty, offers(""), yields(0xd)), "follow.await", 0, 0},
		{"nor where the peer's view is newer", host(empty, offers("alpha"), yields(0xd)), "follow.await", 0, 0},
		{"a host that remembers nothing gives up what it is offered", host(empty, offers("")), "follow.disown", 0, 0xd},
		{"a lost folder of etcd is a lost copy, though the name was never published", host(empty, offers(""), member(0xd)), "follow.lost-copy", 0, 0xd},
		{"nothing is joined under an id that has a name", host(empty, offers("alpha"), yields(0xa), member(0xd)), "follow.lost-copy", 0, 0xd},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			got := Decide(c.snapshot)
			var r state.EtcdRecord
			if got.Record != nil {
				r = *got.Record
			}
			if got.Rule != c.rule || r.Member != c.member || r.Yields != c.yields {
				t.Errorf("%s (%s), member %s, yields %s\nevidence: %q", got.Action, got.Rule, r.Member, r.Yields, got.Evidence)
			}
		})
	}
}

func TestALearnerSaysThatItHasNotGoneOnAlone(t *testing.T) {
	prove(t, []sentence{
		{"a pair that booted goes on without a peer that gave its copy up to it", host(noLeader, unheard, peerEmpty), state.EtcdWriteRecord, "equal.take-over"},
		{"and not without one that has lost its memory", host(noLeader, unheard, blank, peerStopped), state.EtcdAskHuman, "equal.peer-lost"},
	})
}
