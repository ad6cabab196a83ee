package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// L32, L15: what etcd lists beside the two hosts, in each state of the pair.
func TestAMemberThatBelongsToNeitherHostIsAStranger(t *testing.T) {
	const own, peer, odd = 1, 2, 9
	voter := func(id state.MemberID, name string) state.EtcdMember { return state.EtcdMember{ID: id, Name: name} }
	unstarted := state.EtcdMember{ID: odd}
	learner := state.EtcdMember{ID: odd, Learner: true}
	for name, c := range map[string]struct {
		members []state.EtcdMember
		peer    state.MemberID // in its record
		silent  bool           // the peer makes no statement
		paired  state.MemberID
		want    []state.MemberID
	}{
		"the two":                               {[]state.EtcdMember{voter(own, "cp-1"), voter(peer, "cp-2")}, peer, false, peer, nil},
		"a voter that never started":            {[]state.EtcdMember{voter(own, "cp-1"), voter(peer, "cp-2"), unstarted}, peer, false, peer, []state.MemberID{odd}},
		"a voter that did":                      {[]state.EtcdMember{voter(own, "cp-1"), voter(odd, "x"), voter(peer, "cp-2")}, peer, false, peer, []state.MemberID{odd}},
		"a learner":                             {[]state.EtcdMember{voter(own, "cp-1"), voter(peer, "cp-2"), learner}, peer, false, peer, []state.MemberID{odd}},
		"the peer is lost":                      {[]state.EtcdMember{voter(own, "cp-1"), voter(peer, "cp-2"), unstarted}, 0, true, peer, []state.MemberID{odd}},
		"taking over from a lost peer":          {[]state.EtcdMember{voter(own, "cp-1"), voter(7, "cp-2"), learner}, 0, true, 0, []state.MemberID{odd}},
		"alone, and the peer's learner":         {[]state.EtcdMember{voter(own, "cp-1"), learner}, 0, false, 0, nil},
		"alone, the peer's learner and a voter": {[]state.EtcdMember{voter(own, "cp-1"), {ID: 7, Learner: true}, unstarted}, 0, false, 0, []state.MemberID{odd}},
		"the first of several is the worst":     {[]state.EtcdMember{voter(own, "cp-1"), voter(peer, "cp-2"), {ID: 7, Learner: true}, voter(8, "x"), unstarted}, peer, false, peer, []state.MemberID{odd, 8, 7}},
	} {
		s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair, Member: own, Paired: state.EtcdPairing{Member: c.paired}})}
		s.Local.Running, s.Local.Members = state.Known(true), state.Known(c.members)
		s.Pacemaker.Contact, s.Pacemaker.Ring = state.Known(!c.silent), 8
		s.Statement = state.Known(state.EtcdStatement{Ring: 8, Record: state.EtcdRecord{State: state.EtcdPair, Member: c.peer}})
		var got []state.MemberID
		for _, m := range Strangers(s) {
			got = append(got, m.ID)
		}
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] || len(got) > 2 && (got[1] != c.want[1] || got[2] != c.want[2]) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if s.Local.Members.Known = false; Strangers(s) != nil {
			t.Errorf("%s: of a membership that is unknown", name)
		}
	}
}

// L32: with a third voter no rule takes over, whatever is proved about the peer.
func TestAmongThreeVotersNothingTakesOver(t *testing.T) {
	s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Boot: "b", Record: state.Known(state.EtcdRecord{State: state.EtcdPair, Member: 1})}
	s.Data = state.Known(state.EtcdData{Copy: state.CopyWhole, Member: 1})
	s.Local.Running, s.Local.Leader, s.Local.StandIn = state.Known(true), state.Known(state.MemberID(0)), state.Known(state.MemberID(0))
	s.Pacemaker.Contact, s.Pacemaker.Inert = state.Known(false), state.Known(false)
	s.Proofs.Heard = "b"
	s.Proofs.Fenced = state.Known(state.EtcdFenced{Target: "cp-2", State: state.PowerOff, Boot: "b", At: 1})
	members := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}}
	s.Local.Members = state.Known(members)
	if got := Decide(s); got.Rule != "take-over.announce" {
		t.Fatalf("two voters: %+v", got)
	}
	s.Local.Members = state.Known(append(members, state.EtcdMember{ID: 9}))
	if got := Decide(s); got.Rule != "take-over.too-many" || got.Action != state.EtcdAskHuman {
		t.Errorf("three voters: %+v", got)
	}
}

// A host that Corosync does not list is absent, and that is all: it is not off.
func TestAPeerThatIsInNoListOfCorosyncIsNotProvedOff(t *testing.T) {
	for _, own := range []state.EtcdState{state.EtcdPair, state.EtcdVoter, state.EtcdDeparting, state.EtcdSole} {
		for _, running := range []bool{true, false} {
			// Corosync of one host has quorum at once, so the host is not inert.
			s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Boot: "b", Uptime: 3600e9, Record: state.Known(state.EtcdRecord{State: own, Member: 1})}
			s.Data = state.Known(state.EtcdData{Copy: state.CopyWhole, Member: 1, Members: []state.EtcdMember{{ID: 1}, {ID: 2}}})
			s.Local.Running, s.Local.Leader, s.Local.StandIn = state.Known(running), state.Known(state.MemberID(0)), state.Known(state.MemberID(0))
			s.Local.Members = state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}})
			s.Local.Leaderless = FenceAfter * 2
			s.Pacemaker.Contact, s.Pacemaker.Inert = state.Known(false), state.Known(false)
			got := Decide(s)
			switch got.Action {
			case state.EtcdWait, state.EtcdAskFence, state.EtcdAskHuman:
			default:
				t.Errorf("%s, running %v: %+v", own, running, got)
			}
		}
	}
}
