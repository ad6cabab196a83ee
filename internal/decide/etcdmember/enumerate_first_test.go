package etcdmember

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The second formulation of the rule gone.first (docs/adr/0092): what a host without a record
// must be, so that its first record may say that it holds every acknowledged write.
var firstNeeds = []struct {
	lacks string
	has   func(state.EtcdSnapshot) bool
}{
	{"it has a record", func(s state.EtcdSnapshot) bool { return s.Record.Known && s.Record.Value.State == state.EtcdNone }},
	{"no plan says that it never had a peer", func(s state.EtcdSnapshot) bool { return s.Proofs.Retired.Value.Never }},
	{"what the plan says is unknown", func(s state.EtcdSnapshot) bool { return s.Proofs.Retired.Known }},
	{"the plan is about another peer", func(s state.EtcdSnapshot) bool { return s.Proofs.Retired.Value.Peer == s.Peer }},
	{"the peer is there, or that is unknown", func(s state.EtcdSnapshot) bool { return state.Is(s.Pacemaker.Contact, false) }},
	{"its etcd does not run", func(s state.EtcdSnapshot) bool { return state.Is(s.Local.Running, true) }},
	{"its data are not whole", func(s state.EtcdSnapshot) bool { return s.Data.Known && s.Data.Value.Copy == state.CopyWhole }},
	{"its members are unknown", func(s state.EtcdSnapshot) bool { return s.Local.Members.Known }},
	{"it is not among the voters", func(s state.EtcdSnapshot) bool {
		return slices.ContainsFunc(s.Local.Members.Value, func(m state.EtcdMember) bool { return m.ID == s.Data.Value.Member && !m.Learner })
	}},
	{"there is another member", func(s state.EtcdSnapshot) bool { return len(s.Local.Members.Value) <= 1 }},
	{"it does not lead", func(s state.EtcdSnapshot) bool { return state.Is(s.Local.Leader, s.Data.Value.Member) }},
	{"Pacemaker has not decided yet who may start", func(s state.EtcdSnapshot) bool { return state.Is(s.Pacemaker.Inert, false) }},
	{"a stand-in votes", func(s state.EtcdSnapshot) bool { return s.Local.StandIn.Value == 0 }},
}

// lacksForFirst returns what a host lacks to begin as the survivor.
func lacksForFirst(s state.EtcdSnapshot) (out []string) {
	for _, n := range firstNeeds {
		if !n.has(s) {
			out = append(out, n.lacks)
		}
	}
	return out
}

// never gives a host the file that says that it never had a peer.
func never(peer string) change {
	return func(s *state.EtcdSnapshot) {
		s.Proofs.Retired = state.Known(state.EtcdRetired{Peer: peer, Plan: "p1", Never: true})
	}
}

func hasMembers(known bool, list ...state.EtcdMember) change {
	return func(s *state.EtcdSnapshot) {
		s.Local.Members, s.Data.Value.Members = state.Fact[[]state.EtcdMember]{Value: list, Known: known}, list
	}
}

// firstDimensions are the facts of a host on which the first record depends, all combined.
func firstDimensions() []dimension {
	var (
		nothing = func(*state.EtcdSnapshot) {}
		other   = state.EtcdMember{ID: 0xb, Name: "beta"}
		learner = state.EtcdMember{ID: 0xb, Name: "beta", Learner: true}
		self    = state.EtcdMember{ID: 0xa, Name: "alpha"}
	)
	choose := func(changes ...change) dimension {
		return pick(changes, func(s *state.EtcdSnapshot, f change) { f(s) })
	}
	return []dimension{
		choose(own(state.EtcdNone), own(state.EtcdSole), own(state.EtcdVoter)),
		choose(nothing, retires("beta"), never("beta"), never("gamma"), all(never("beta"), func(s *state.EtcdSnapshot) { s.Proofs.Retired.Known = false })),
		choose(hasMembers(true, self), hasMembers(false, self), hasMembers(true, self, learner), hasMembers(true, self, other), hasMembers(true, other), hasMembers(true, state.EtcdMember{ID: 0xa, Learner: true}), hasMembers(true)),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Local.Running = v }),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Pacemaker.Contact = v }),
		pick([]bool{false, true}, func(s *state.EtcdSnapshot, v bool) { s.Pacemaker.Inert = state.Known(v) }),
		pick([]state.MemberID{0, 0xa, 0xb}, func(s *state.EtcdSnapshot, v state.MemberID) { s.Local.Leader = state.Known(v) }),
		pick([]state.MemberID{0, 0xb}, func(s *state.EtcdSnapshot, v state.MemberID) { s.Local.StandIn = state.Known(v) }),
		choose(nothing, func(s *state.EtcdSnapshot) { s.Data.Value.Member = 0xb }, func(s *state.EtcdSnapshot) { s.Data.Known = false },
			func(s *state.EtcdSnapshot) { s.Data.Value.Copy = state.CopyNone }, func(s *state.EtcdSnapshot) { s.Data.Value.Copy = state.CopyDamaged }),
		choose(nothing, fenced),
	}
}

// TestEveryCombinationOfFactsOfAHostThatNeverHadAPeer tries them all. Each need of the first record
// is the only one that is missing somewhere among them, so the protocol can spare none. That the peer is
// absent is asked twice: by the section of the rule, too.
func TestEveryCombinationOfFactsOfAHostThatNeverHadAPeer(t *testing.T) {
	n, firsts, onlyMissing := 0, 0, map[string]int{}
	enumerate(host(), firstDimensions(), func(s state.EtcdSnapshot) {
		n++
		v := Decide(s)
		if why := forbidden(s, v); why != "" && !t.Failed() {
			t.Errorf("%s: %s (%s)\n%+v", why, v.Action, v.Rule, s)
		}
		lacks := lacksForFirst(s)
		if v.Rule == "gone.first" {
			firsts++
		} else if len(lacks) == 0 && !t.Failed() {
			t.Errorf("nothing is missing, and the first record is not written: %s\n%+v", v.Rule, s)
		}
		if len(lacks) == 1 {
			onlyMissing[lacks[0]]++
		}
	})
	for _, need := range firstNeeds {
		if onlyMissing[need.lacks] == 0 {
			t.Errorf("in none of %d snapshots this alone is missing: %s", n, need.lacks)
		}
	}
	if firsts == 0 {
		t.Errorf("none of %d snapshots led to the first record", n)
	}
	t.Logf("%d snapshots, %d first records, only missing: %v", n, firsts, onlyMissing)
}
