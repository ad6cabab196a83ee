package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestOnlyAHostThatNeverHadAPeerBeginsAsTheSurvivor: a site grows from one control plane to two
// (docs/adr/0092), and its lone host has all data without ever having taken over.
func TestOnlyAHostThatNeverHadAPeerBeginsAsTheSurvivor(t *testing.T) {
	never := func(s *state.EtcdSnapshot) {
		s.Proofs.Retired = state.Known(state.EtcdRetired{Peer: "beta", Plan: "p1", Never: true})
	}
	leads := func(s *state.EtcdSnapshot) { s.Local.Leader = state.Known(s.Data.Value.Member) }
	lone := all(own(state.EtcdNone), onlyMember, never, leads)
	for _, c := range []struct {
		sentence string
		snapshot state.EtcdSnapshot
		rule     string
	}{
		{"its etcd leads and is the only member", host(gonePeer, lone), "gone.first"},
		{"not without the plan's word", host(gonePeer, own(state.EtcdNone), onlyMember, leads), "gone.unproved"},
		{"not after a peer was retired", host(gonePeer, lone, retires("beta")), "gone.unproved"},
		{"not for another peer", host(gonePeer, lone, func(s *state.EtcdSnapshot) { s.Proofs.Retired.Value.Peer = "gamma" }), "gone.unproved"},
		{"not while another voter is listed", host(gonePeer, own(state.EtcdNone), never, leads), "gone.unproved"},
		{"not while there is a learner", host(gonePeer, lone, func(s *state.EtcdSnapshot) {
			s.Local.Members.Value = append(s.Local.Members.Value, state.EtcdMember{ID: 0xb, Learner: true})
		}), "gone.unproved"},
		{"not without a leader", host(gonePeer, lone, func(s *state.EtcdSnapshot) { s.Local.Leader = state.Known(state.MemberID(0)) }), "gone.unproved"},
		{"not while etcd is stopped", host(gonePeer, lone, func(s *state.EtcdSnapshot) { s.Local.Running = state.Known(false) }), "gone.unproved"},
		{"not while the data belong to another member", host(gonePeer, lone, func(s *state.EtcdSnapshot) { s.Data.Value.Member = 0xb }), "gone.unproved"},
		{"not while the peer is in contact", host(lone, func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(true) }), "equal.no-record"},
	} {
		v := Decide(c.snapshot)
		if v.Rule != c.rule {
			t.Errorf("%s: %s (%s), want %s", c.sentence, v.Rule, v.Reason, c.rule)
		}
		if v.Rule == "gone.first" && (v.Record == nil || v.Record.State != state.EtcdSole || v.Record.Member != c.snapshot.Data.Value.Member || v.Record.Seq != 1) {
			t.Errorf("%s: the record is %+v", c.sentence, v.Record)
		}
	}
}
