package etcdmember

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The third member that a plan lets in (docs/adr/0097), sentence by sentence.
func TestHowAThirdMemberIsLetIn(t *testing.T) { prove(t, wideningSentences()) }

var (
	gammaInSync = state.EtcdMember{ID: 0xd, Name: "gamma", Learner: true, InSync: true}
	gammaLate   = state.EtcdMember{ID: 0xd, Name: "gamma", Learner: true}
	stranger    = state.EtcdMember{ID: 0xe, Name: "x", Learner: true, InSync: true}
)

func third(st state.EtcdState) bool { return st == state.EtcdWidening || st == state.EtcdMajority }

func ownThird(st state.EtcdState) change {
	return func(s *state.EtcdSnapshot) { s.Record.Value.State, s.Record.Value.Third = st, 0xd }
}

func peerThird(st state.EtcdState) change {
	return func(s *state.EtcdSnapshot) {
		s.Statement.Value.Record.State, s.Statement.Value.Record.Third = st, 0xd
	}
}

// said is the plan's word for a member; it lacks as many entries as are allowed.
func said(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) {
		s.Third = state.EtcdThird{Coming: true, Word: state.Known(state.EtcdThirdWord{Plan: "p1", Host: "gamma", Member: id}), Behind: state.Known(uint64(MostBehind))}
	}
}

func noWord(s *state.EtcdSnapshot) {
	s.Third = state.EtcdThird{Word: state.Known(state.EtcdThirdWord{})}
}

func wordUnread(s *state.EtcdSnapshot) { s.Third.Word.Known = false }

func behind(b state.Fact[uint64]) change {
	return func(s *state.EtcdSnapshot) { s.Third.Behind = b }
}

// wide is a pair for which the plan has said that gamma, a learner, may vote.
func wide(changes ...change) state.EtcdSnapshot {
	return host(append([]change{members(alpha, beta, gammaInSync), said(0xd)}, changes...)...)
}

func wideningSentences() []sentence {
	ask, wait, idle, write := state.EtcdAskHuman, state.EtcdWait, state.EtcdIdle, state.EtcdWriteRecord
	widening, majority := ownThird(state.EtcdWidening), ownThird(state.EtcdMajority)
	theyWiden, theirMajority := peerThird(state.EtcdWidening), peerThird(state.EtcdMajority)
	another := at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Third = 0xe })
	return []sentence{
		{"a pair gives its right up by the plan's word", wide(), write, "widen.begin"},
		{"also where the peer did", wide(theyWiden), write, "widen.begin"},
		{"not where the peer did for another member", wide(theyWiden, another), idle, "equal.idle"},
		{"not without a word", wide(noWord), idle, "equal.idle"},
		{"nor by one that cannot be read", wide(wordUnread), idle, "equal.idle"},
		{"nor while it names no member", wide(said(0)), idle, "equal.idle"},
		{"nor for a member that is not listed", wide(members(alpha, beta)), idle, "equal.idle"},
		{"nor for another than the listed one", wide(said(0xe)), idle, "equal.idle"},
		{"nor beside a stranger", wide(members(alpha, beta, gammaInSync, stranger)), idle, "equal.idle"},
		{"nor for one that votes already", wide(members(alpha, beta, gamma)), idle, "equal.idle"},
		{"nor with a peer that is no pair", wide(follows, peer(state.EtcdVoter)), idle, "equal.idle"},
		{"nor with one that etcd lists under another id", wide(peerMember(0xf)), idle, "equal.idle"},
		{"nor with one whose etcd is stopped", wide(peerStopped), idle, "equal.idle"},
		{"nor with one that leaves", wide(peerLeaves), idle, "equal.idle"},
		{"nor while nothing is committed", wide(stalls(1)), idle, "equal.idle"},
		{"nor with a stand-in left", wide(standIn(0xb)), idle, "equal.idle"},
		{"nor alone", wide(gonePeer), wait, "gone.unproved"},
		{"who gave it up waits for the peer", wide(widening), idle, "equal.idle"},
		{"both gave it up: majority", wide(widening, theyWiden), write, "widen.majority"},
		{"also where the peer is there already", wide(widening, theirMajority), write, "widen.majority"},
		{"not for another member", wide(widening, theyWiden, another), idle, "equal.idle"},
		{"not by a word that cannot be read", wide(widening, theyWiden, wordUnread), idle, "equal.idle"},
		{"the word is gone: back", wide(widening, theyWiden, noWord), write, "widen.back"},
		{"the word is another: back", wide(widening, said(0xe)), write, "widen.back"},
		{"the third one is gone: back", wide(widening, members(alpha, beta)), write, "widen.back"},
		{"the peer leaves after all: back", wide(widening, peer(state.EtcdDeparting)), write, "widen.back"},
		{"nothing is committed: back", wide(widening, stalls(StallAfter)), write, "widen.back"},
		{"a voter follows its peer", wide(own(state.EtcdVoter), theyWiden), write, "widen.follow"},
		{"not without the word", wide(own(state.EtcdVoter), follows, theyWiden, noWord), idle, "equal.idle"},
		{"three vote, and the peer knew: majority", wide(own(state.EtcdVoter), theirMajority, members(alpha, beta, gamma)), write, "widen.three"},
		{"one that is widening, too", wide(widening, theirMajority, members(alpha, beta, gamma)), write, "widen.three"},
		{"not beside a stranger that votes", wide(own(state.EtcdVoter), follows, theirMajority, said(0), members(alpha, beta, state.EtcdMember{ID: 0xe, Name: "x"})), idle, "equal.idle"},

		{"who is widening takes over from nobody", wide(widening, gonePeer, fenced), ask, "gone.widening"},
		{"and waits for its peer", wide(widening, gonePeer), wait, "gone.unproved"},
		{"after a boot, too", wide(widening, rebooted), ask, "alone.wait"},
		{"its peer may take over from it", wide(theyWiden, gonePeer, fenced), write, "take-over.announce"},
		{"with its peer it starts", wide(widening, stopped), state.EtcdStart, "equal.start"},
		{"a person may force it", wide(widening, gonePeer, forces), write, "gone.forced"},
		{"its lost copy is given up to a pair", wide(widening, damaged), write, "equal.widening-yield"},
		{"and to a peer in majority, since no third member votes", wide(widening, theirMajority, damaged), write, "equal.widening-yield"},
		{"not before the peer has read it", wide(widening, damaged, unread), wait, "equal.unusable-wait"},
		{"not where the peer's is not whole", wide(widening, damaged, peerCopyDamaged), wait, "equal.unusable-wait"},
		{"not where the peer gave its own up", wide(widening, damaged, theyWiden, peerYields(0xb)), ask, "equal.unusable"},
		{"a sick peer that is widening is fenced by a pair", wide(theyWiden, stalls(StallAfter), peerSick), state.EtcdAskFence, "stall.fence"},
		{"who is widening does not leave", wide(widening, leaves), state.EtcdStop, "leave.stop"},

		{"majority starts alone after a boot", wide(majority, rebooted), state.EtcdStart, "majority.start"},
		{"and with its peer", wide(majority, stopped), state.EtcdStart, "majority.start"},
		{"and while the peer says nothing", wide(majority, stopped, unsaid), state.EtcdStart, "majority.start"},
		{"not from damaged data", wide(majority, damaged), ask, "majority.no-copy"},
		{"nor from data that do not list it", wide(majority, members(beta, gamma), stopped), ask, "majority.no-copy"},
		{"it takes over from nobody", wide(majority, gonePeer, fenced), wait, "majority.wait"},
		{"nor does a person's word make it", wide(majority, gonePeer, forces), wait, "majority.wait"},
		{"nor among three", wide(majority, gonePeer, fenced, members(alpha, beta, gamma)), idle, "majority.three"},
		{"it does not leave", wide(majority, leaves), state.EtcdStop, "leave.stop"},
		{"the leader promotes", wide(majority, theirMajority), state.EtcdPromote, "majority.promote"},
		{"a follower does not", wide(majority, theirMajority, follows), wait, "majority.wait"},
		{"nor while the peer is widening", wide(majority, theyWiden), wait, "majority.wait"},
		{"nor while it is pair", wide(majority), wait, "majority.wait"},
		{"nor while it is in majority for another member", wide(majority, theirMajority, another), wait, "majority.wait"},
		{"nor while its statement is of another membership", wide(majority, theirMajority, at(func(s *state.EtcdSnapshot) { s.Statement.Value.Ring-- })), wait, "majority.wait"},
		{"nor while its etcd is stopped", wide(majority, theirMajority, peerStopped), wait, "majority.wait"},
		{"nor while it leaves", wide(majority, theirMajority, peerLeaves), wait, "majority.wait"},
		{"nor one that never started", wide(majority, theirMajority, members(alpha, beta, gammaLate)), wait, "majority.wait"},
		{"nor one that lacks much", wide(majority, theirMajority, behind(state.Known(uint64(MostBehind+1)))), wait, "majority.wait"},
		{"nor one of which nobody knows", wide(majority, theirMajority, behind(state.Fact[uint64]{})), wait, "majority.wait"},
		{"nor by a word that cannot be read", wide(majority, theirMajority, wordUnread), wait, "majority.wait"},
		{"nor while nothing is committed", wide(majority, theirMajority, stalls(1)), wait, "majority.wait"},
		{"nor a third member that was replaced", wide(majority, theirMajority, members(alpha, beta, stranger)), write, "majority.back"},
		{"the word is gone: back, once both run", wide(majority, theirMajority, noWord), write, "majority.back"},
		{"not while the peer does not run", wide(majority, theirMajority, noWord, peerStopped), wait, "majority.wait"},
		{"not while it is away", wide(majority, noWord, gonePeer), wait, "majority.wait"},
		{"not while three vote", wide(majority, theirMajority, noWord, members(alpha, beta, gamma)), idle, "majority.three"},
		{"a peer that was widening gave its copy up: back", wide(majority, peer(state.EtcdDeparting), peerHalted, peerYields(0xb)), write, "majority.back"},
		{"not while three vote, since the others go on", wide(majority, peer(state.EtcdDeparting), peerHalted, peerYields(0xb), members(alpha, beta, gamma)), idle, "majority.three"},
		{"a person made the peer take over: it stops", wide(majority, peer(state.EtcdTakingOver)), state.EtcdStop, "follow.stop"},
		{"a person made the peer lead: it is a voter", wide(majority, peer(state.EtcdSole), peerHeads), write, "follow.demote"},
		{"the peer took over from one that is widening: it is a voter", wide(widening, peer(state.EtcdSole), peerHeads), write, "follow.demote"},

		{"marked voters among three are no pair", wide(own(state.EtcdVoter), peer(state.EtcdVoter), members(marks(alpha, 4), marks(beta, 2), gamma)), idle, "equal.idle"},
	}
}

func TestALearnerThatAPlanBringsIsNoStrangerAndIsNotOfferedToThePeer(t *testing.T) {
	unnamed := state.EtcdMember{ID: 0xd, Learner: true}
	for sentence, c := range map[string]struct {
		snapshot state.EtcdSnapshot
		strange  int
		told     int
	}{
		"named by the word":                   {wide(), 0, 2},
		"not named yet":                       {wide(said(0), members(alpha, beta, unnamed)), 0, 2},
		"the word cannot be read":             {wide(wordUnread, members(alpha, beta, unnamed)), 0, 2},
		"nobody brings one":                   {wide(noWord), 1, 3},
		"it votes":                            {wide(ownThird(state.EtcdMajority), members(alpha, beta, gamma)), 0, 3},
		"a voter that nobody brought":         {wide(said(0), members(alpha, beta, gamma)), 1, 3},
		"beside it is the peer's own learner": {wide(said(0), own(state.EtcdSole), peer(state.EtcdLearner), members(alpha, betaLearner, unnamed)), 0, 2},
	} {
		if got := Strangers(c.snapshot); len(got) != c.strange {
			t.Errorf("%s: strangers %v", sentence, got)
		}
		if got := Statement(c.snapshot).Members.Value; len(got) != c.told {
			t.Errorf("%s: the peer is told %v", sentence, got)
		}
	}
	// An empty peer would take it, and two machines would run one member.
	survivor := wide(own(state.EtcdSole), said(0), members(alpha, unnamed))
	st := Statement(survivor)
	empty := host(gaveUp, at(func(s *state.EtcdSnapshot) { s.Host, s.Peer, s.Record.Value.Yields = "beta", "alpha", 0xb }))
	st.Ring, st.Record.Member = 7, 0xa
	empty.Statement = state.Known(st)
	if got := Decide(empty); got.Rule != "follow.await" {
		t.Errorf("the empty peer: %s (%s)", got.Action, got.Rule)
	}
}

// The second formulation: what a host must not do around a third member.
func forbiddenWide(s state.EtcdSnapshot, v state.EtcdVerdict) string {
	r, p := s.Record.Value, s.Statement.Value
	counts := s.Statement.Known && state.Is(s.Pacemaker.Contact, true) && p.Ring == s.Pacemaker.Ring
	gave := counts && third(p.Record.State) && p.Record.Third == 0xd
	listed := s.Local.Members.Value
	votes := slices.ContainsFunc(listed, func(m state.EtcdMember) bool { return m.ID == 0xd && !m.Learner })
	to := state.EtcdState("")
	if v.Record != nil {
		to = v.Record.State
	}
	switch {
	case r.State == state.EtcdMajority && to != "" && to != state.EtcdVoter:
		return "from majority a record leads elsewhere than to voter"
	case third(r.State) && (v.Action == state.EtcdStartStandIn || v.Action == state.EtcdGrantQuorum || v.Action == state.EtcdRemove || v.Action == state.EtcdEmpty || v.Action == state.EtcdAskFence):
		return "a host that gave its right up does what only one that goes on alone does"
	case third(r.State) && to.Leads():
		return "a host that gave its right up takes over"
	case v.Rule == "equal.pair-first" && votes:
		return "pair among three voters"
	case to == state.EtcdWidening && (r.State != state.EtcdPair && r.State != state.EtcdVoter || !counts || !s.Third.Word.Known || s.Third.Word.Value.Member != 0xd):
		return "gives its right up without the word or the peer"
	case to == state.EtcdMajority && (!gave || r.State != state.EtcdWidening && (r.State != state.EtcdVoter || !votes)):
		return "majority before the peer gave its right up"
	case v.Action == state.EtcdPromote && r.State != state.EtcdSole &&
		(r.State != state.EtcdMajority || !gave || p.Record.State != state.EtcdMajority || !s.Third.Behind.Known || s.Third.Behind.Value > MostBehind || !state.Is(p.Running, true) || !state.Is(s.Local.Leader, 0xa)):
		return "promotes too early"
	case v.Action == state.EtcdStart && state.Is(s.Pacemaker.Inert, true) && r.State != state.EtcdMajority:
		return "starts alone"
	}
	return ""
}

func wideDimensions() []dimension {
	choose := func(changes ...change) dimension {
		return pick(changes, func(s *state.EtcdSnapshot, f change) { f(s) })
	}
	states := []state.EtcdState{state.EtcdVoter, state.EtcdPair, state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting, state.EtcdWidening, state.EtcdMajority}
	dress := func(st state.EtcdState, o func(state.EtcdState) change, with func(state.EtcdState) change) change {
		if third(st) {
			return with(st)
		}
		return o(st)
	}
	return []dimension{
		pick(states, func(s *state.EtcdSnapshot, st state.EtcdState) { dress(st, own, ownThird)(s) }),
		pick(append(slices.Clone(states), ""), func(s *state.EtcdSnapshot, st state.EtcdState) {
			if st == "" {
				s.Statement.Value.Ring--
				return
			}
			dress(st, peer, peerThird)(s)
		}),
		choose(all(), func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Third = 0xe }),
		choose(members(alpha, beta), members(alpha, beta, gammaInSync), members(alpha, beta, gammaLate), members(alpha, beta, gamma), members(marks(alpha, 4), marks(beta, 2), gamma), members(marks(alpha, 4), marks(beta, 2), gammaInSync)),
		choose(noWord, said(0xd), said(0), said(0xe), all(said(0xd), wordUnread)),
		choose(all(), behind(state.Known(uint64(MostBehind+1))), behind(state.Fact[uint64]{})),
		choose(all(), follows, noLeader),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Local.Running = v }),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Pacemaker.Contact = v }),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Statement.Value.Running = v }),
		choose(all(), rebooted),
		choose(all(), fenced, confirms),
		choose(all(), copyDamaged, peerPaired, peerYields(0xb)),
		choose(all(), leaves, peerLeaves, stalls(StallAfter), unread),
	}
}

func TestEveryCombinationOfFactsAboutAThirdMember(t *testing.T) {
	if testing.Short() {
		t.Skip("hack/mutate asks what the sentences alone notice")
	}
	// From each of these some facts are changed: by chance alone too few fit together.
	bases := []state.EtcdSnapshot{
		wide(), wide(ownThird(state.EtcdWidening), peerThird(state.EtcdWidening)), wide(ownThird(state.EtcdMajority), peerThird(state.EtcdMajority)),
		wide(own(state.EtcdVoter), peerThird(state.EtcdMajority)), wide(own(state.EtcdVoter), peer(state.EtcdVoter)),
	}
	rng, dims, acted := rand.New(rand.NewPCG(1, 3)), wideDimensions(), map[string]int{}
	const n = 60_000
	for k := range n {
		s := bases[k%len(bases)]
		for range rng.IntN(6) {
			for d := dims[rng.IntN(len(dims))]; !d(&s, rng.IntN(8)); {
			}
		}
		v := Decide(s)
		acted[v.Rule]++
		if why := forbiddenWide(s, v); why != "" && !t.Failed() {
			t.Errorf("%s: %s (%s)\nevidence: %q\n%+v", why, v.Action, v.Rule, v.Evidence, s)
		}
	}
	for _, list := range [][]rule{widenRules, widenedRules} {
		for _, r := range list {
			if acted[r.id] == 0 {
				t.Errorf("none of %d snapshots led to %s", n, r.id)
			}
		}
	}
}
