package etcdmember

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The second formulation of the protocol: which steps are allowed at all, written
// as simply as possible and without looking at the first. The test tries every
// combination of the facts below against it.

var allStates = []state.EtcdState{
	state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdPair,
	state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting,
}

var tri = []state.Fact[bool]{{}, state.Known(false), state.Known(true)}

// dumbProof reports whether anything proves that the peer cannot act.
func dumbProof(s state.EtcdSnapshot) bool {
	if !s.Pacemaker.Contact.Known {
		return false
	}
	if r := s.Record.Value; r.State == state.EtcdTakingOver && r.Proof.Kind == state.ProofYielded && r.Proof.Member == 0xb && !state.Is(s.Pacemaker.Inert, true) {
		return true
	}
	if !s.Pacemaker.Contact.Value {
		f, h := s.Proofs.Fenced, s.Proofs.Human
		return f.Known && f.Value.State == "Off" && f.Value.Boot == s.Boot && f.Value.At > s.Pacemaker.Joined ||
			h.Known && h.Value.Boot == s.Boot && h.Value.At > s.Pacemaker.Joined || dumbRetired(s)
	}
	p := s.Statement
	if !p.Known || p.Value.Ring != s.Pacemaker.Ring {
		return false
	}
	stopped := p.Value.Running.Known && !p.Value.Running.Value
	waits := s.Record.Value.State == state.EtcdTakingOver && stopped && p.Value.SeenSeq >= s.Record.Value.Seq
	yields := p.Value.Record.Yields == 0xb
	renounces := stopped && p.Value.Record.State == state.EtcdLearner && p.Value.Record.Member != 0xb
	return waits || yields || renounces
}

// dumbRetired reports whether a lone survivor knows that it has no peer.
func dumbRetired(s state.EtcdSnapshot) bool {
	members := s.Local.Members
	if state.Is(s.Local.Running, false) {
		members = state.Fact[[]state.EtcdMember]{Value: s.Data.Value.Members, Known: s.Data.Known && s.Data.Value.Copy == state.CopyWhole}
	}
	other := slices.ContainsFunc(members.Value, func(m state.EtcdMember) bool { return m.ID != s.Record.Value.Member && !m.Learner })
	return s.Proofs.Retired.Known && s.Proofs.Retired.Value.Peer == s.Peer && s.Record.Value.State == state.EtcdSole && members.Known && !other
}

// dumbEligible reports whether the record allows going on without the peer.
func dumbEligible(s state.EtcdSnapshot) bool {
	heard := s.Proofs.Heard == s.Boot
	if p := s.Statement; p.Known && s.Pacemaker.Contact.Known && s.Pacemaker.Contact.Value && p.Value.Ring == s.Pacemaker.Ring {
		heard = heard || slices.Contains([]state.EtcdState{state.EtcdLearner, state.EtcdPair, state.EtcdVoter, state.EtcdDeparting}, p.Value.Record.State)
	}
	forced := s.Proofs.Human.Known && s.Proofs.Human.Value.Force && dumbProof(s)
	yielded := s.Statement.Value.Record.Yields == 0xb
	switch s.Record.Value.State {
	case state.EtcdSole, state.EtcdTakingOver:
		return true
	case state.EtcdPair:
		return heard || forced
	case state.EtcdVoter, state.EtcdDeparting:
		return forced || yielded && dumbProof(s)
	default:
		return false
	}
}

// forbidden returns why a verdict must not be given, or nothing.
func forbidden(s state.EtcdSnapshot, v state.EtcdVerdict) string {
	r := s.Record.Value
	counts := s.Statement.Known && s.Pacemaker.Contact.Known && s.Pacemaker.Contact.Value && s.Statement.Value.Ring == s.Pacemaker.Ring
	acts := !slices.Contains([]state.EtcdAction{state.EtcdWait, state.EtcdIdle, state.EtcdAskHuman}, v.Action)
	unknown := !s.Local.Running.Known || !s.Pacemaker.Contact.Known || !s.Record.Known
	inert := s.Pacemaker.Inert.Value
	switch {
	case unknown && acts:
		return "something is unknown, and it acts"
	case v.Action == state.EtcdStartStandIn && (r.State != state.EtcdTakingOver || !dumbProof(s)):
		return "a stand-in without a record or a proof"
	case v.Record != nil && v.Record.State == state.EtcdTakingOver && r.State != state.EtcdSole && !dumbProof(s):
		return "a take-over without a proof"
	case v.Record != nil && v.Record.State == state.EtcdTakingOver && !dumbEligible(s):
		return "a take-over by a copy that may lack writes"
	case v.Record != nil && v.Record.State == state.EtcdTakingOver && v.Record.Forced.Who == "" && r.State != state.EtcdSole && s.Proofs.Heard != s.Boot && !counts:
		return "a take-over that was neither heard nor marked as forced"
	case v.Action == state.EtcdGrantQuorum && (!inert || !r.State.Leads() || !dumbProof(s)):
		return "starts alone without the record or the proof"
	case v.Action == state.EtcdStart && inert:
		return "starts while inert"
	case v.Action == state.EtcdStart && r.State == state.EtcdNone:
		return "starts without a record"
	case v.Action == state.EtcdStart && s.Data.Value.Copy == state.CopyDamaged:
		return "starts from a damaged copy"
	case v.Action == state.EtcdStart && counts && s.Statement.Value.Record.State == state.EtcdTakingOver && (!r.State.Leads() || r.Forced.Who == ""):
		return "starts while its peer takes over"
	case v.Action == state.EtcdEmpty && !emptiable(s, counts):
		return "empties a copy that may be the newest"
	case v.Record != nil && r.State == state.EtcdNone && v.Record.State.Leads() && len(lacksForFirst(s)) > 0:
		return "begins as the survivor, although " + strings.Join(lacksForFirst(s), " and ")
	case v.Record != nil && r.State == state.EtcdNone && v.Record.State.Leads() && v.Record.Member != s.Data.Value.Member:
		return "begins as the survivor under a member id that is not that of its data"
	case v.Record != nil && v.Record.State == state.EtcdSole && r.State != state.EtcdNone && r.State != state.EtcdTakingOver && !counts && !dumbProof(s):
		return "goes on alone without a proof, and has not taken over"
	case v.Record != nil && v.Record.State == state.EtcdPair:
		return "becomes pair without a marker" // no marker is among the facts
	case v.Action == state.EtcdAskFence && counts && s.Local.Sick != "":
		return "a sick host asks for a fence"
	case v.Action == state.EtcdAskFence && counts && !dumbEligible(s):
		return "asks for a fence, and could not go on after it"
	case v.Action == state.EtcdAskFence && counts && !blamed(s):
		return "asks for a fence of a peer that is not at fault"
	case pairs(s, counts) && s.Host < s.Peer && (v.Action == state.EtcdStop || v.Record != nil && v.Record.State == state.EtcdDeparting):
		return "the first by name gives way"
	case pairs(s, counts) && v.Action == state.EtcdStop && (s.Local.Stalled < StallAfter || s.Statement.Value.Stalled == 0 || s.Local.Sick != "" || s.Statement.Value.Sick != ""):
		return "gives way without need"
	case v.Record != nil && v.Record.Yields != 0 && counts && s.Statement.Value.Record.State == state.EtcdDeparting && s.Statement.Value.Record.Yields != 0:
		return "gives its copy up, and its peer did"
	case v.Rule == "equal.no-space-yield" && r.State != state.EtcdDeparting:
		return "gives up a copy without a word before"
	case (v.Rule == "equal.no-space-yield" || v.Rule == "equal.no-space-depart") && (!s.Data.Value.Barred() || !counts || !state.Is(s.Statement.Value.Running, true) || s.Statement.Value.Record.State != state.EtcdPair || s.Statement.Value.Sick != ""):
		return "gives up a copy that nobody else serves"
	case v.Record != nil && v.Record.Yields != 0 && r.State.Leads():
		return "gives up the copy of a host that went on alone"
	case v.Record != nil && v.Record.Seq != r.Seq+1:
		return "the record's number does not follow"
	}
	return ""
}

// pairs reports whether either host may go on without the other, and etcd can run
// from its data directory.
func pairs(s state.EtcdSnapshot, counts bool) bool {
	return counts && s.Record.Value.State == state.EtcdPair && s.Statement.Value.Record.State == state.EtcdPair && s.Data.Value.Copy == state.CopyWhole &&
		!s.Data.Value.Barred() && s.Record.Value.Member == 0xa && s.Local.Running.Known && state.Is(s.Statement.Value.StandIn, 0)
}

// blamed reports whether a peer that is there may be fenced: in a stall it is sick
// or silent, or had time enough to give way.
func blamed(s state.EtcdSnapshot) bool {
	p := s.Statement.Value
	return s.Local.Stalled >= StallAfter && (p.Sick != "" || p.Age > SilentAfter || p.Stalled > 0 && s.Local.Stalled > FenceAfter)
}

// emptiable reports whether the record gave the data directory up, and a living
// cluster that leads does not list it.
func emptiable(s state.EtcdSnapshot, counts bool) bool {
	p := s.Statement.Value
	listed := slices.ContainsFunc(p.Members.Value, func(m state.EtcdMember) bool { return m.ID == s.Data.Value.Member })
	return counts && s.Record.Value.Member == 0 && s.Record.Value.State == state.EtcdLearner &&
		p.Record.State == state.EtcdSole && p.Leads && p.Members.Known && (!listed || s.Data.Value.Copy != state.CopyWhole)
}

type dimension func(s *state.EtcdSnapshot, n int) bool // false: there is no n-th value

func enumerate(s state.EtcdSnapshot, dims []dimension, visit func(state.EtcdSnapshot)) {
	if len(dims) == 0 {
		visit(s)
		return
	}
	for n := 0; ; n++ {
		next := s
		if !dims[0](&next, n) {
			return
		}
		enumerate(next, dims[1:], visit)
	}
}

func pick[T any](values []T, set func(*state.EtcdSnapshot, T)) dimension {
	return func(s *state.EtcdSnapshot, n int) bool {
		if n >= len(values) {
			return false
		}
		set(s, values[n])
		return true
	}
}

// forcedBefore is a forced confirmation from before the peer joined again.
func forcedBefore(s *state.EtcdSnapshot) {
	forces(s)
	s.Proofs.Human.Value.At = s.Pacemaker.Joined - time.Second
}

// fullDisk stands for a whole copy from which etcd cannot run.
const fullDisk = state.CopyState("whole, the disk is full")

func dimensions() []dimension {
	facts := []state.Fact[state.EtcdFenced]{{}, host(fenced).Proofs.Fenced, state.Known(state.EtcdFenced{Target: "beta", State: "Off", Boot: "boot-2", At: time.Second}), state.Known(state.EtcdFenced{Target: "beta", State: "PoweringOff", Boot: "boot-2", At: time.Hour})}
	return []dimension{
		pick(allStates, func(s *state.EtcdSnapshot, v state.EtcdState) { own(v)(s) }),
		pick([]bool{false, true}, func(s *state.EtcdSnapshot, v bool) {
			if v {
				s.Record.Value.Member = 0
			}
		}),
		pick(append(slices.Clone(allStates), ""), func(s *state.EtcdSnapshot, v state.EtcdState) {
			if v == "" {
				s.Statement.Value.Ring--
				return
			}
			peer(v)(s)
		}),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Local.Running = v }),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Pacemaker.Contact = v }),
		pick(tri, func(s *state.EtcdSnapshot, v state.Fact[bool]) { s.Statement.Value.Running = v }),
		pick([]bool{false, true}, func(s *state.EtcdSnapshot, v bool) {
			if s.Pacemaker.Inert = state.Known(v); v {
				s.Pacemaker.Contact = state.Known(false)
			}
		}),
		pick(facts, func(s *state.EtcdSnapshot, v state.Fact[state.EtcdFenced]) { s.Proofs.Fenced = v }),
		pick([]func(*state.EtcdSnapshot){func(*state.EtcdSnapshot) {}, confirms, forces, forcedBefore}, func(s *state.EtcdSnapshot, f func(*state.EtcdSnapshot)) { f(s) }),
		pick([]string{"", "boot-2"}, func(s *state.EtcdSnapshot, v string) { s.Proofs.Heard = v }),
		pick([]state.CopyState{state.CopyNone, state.CopyWhole, state.CopyDamaged, fullDisk}, func(s *state.EtcdSnapshot, v state.CopyState) {
			if s.Data.Value.Copy = v; v == fullDisk {
				s.Data.Value.Copy, s.Data.Value.NoSpace = state.CopyWhole, true
			}
		}),
		pick([]state.MemberID{0, 0xa, 0xb}, func(s *state.EtcdSnapshot, v state.MemberID) { s.Local.Leader = state.Known(v) }),
		pick([]uint64{3, 4}, func(s *state.EtcdSnapshot, v uint64) { s.Statement.Value.SeenSeq = v }),
		pick([]state.MemberID{0, 0xb}, func(s *state.EtcdSnapshot, v state.MemberID) { s.Statement.Value.Record.Yields = v }),
		pick([]bool{false, true}, func(s *state.EtcdSnapshot, v bool) {
			if v {
				s.Statement.Value.Members = state.Known([]state.EtcdMember{{ID: 0xb, Name: "beta"}})
				s.Statement.Value.Leads = true
			}
		}),
		pick(stallFacts(), func(s *state.EtcdSnapshot, f change) { f(s) }),
		pick([]state.EtcdProof{{}, {Kind: state.ProofYielded, Member: 0xb}, {Kind: state.ProofYielded, Member: 0xc}, {Kind: state.ProofYielded}}, func(s *state.EtcdSnapshot, p state.EtcdProof) { s.Record.Value.Proof = p }),
		pick([]change{func(*state.EtcdSnapshot) {}, retires("beta"), all(retires("beta"), onlyMember), retires("gamma"), all(never("beta"), onlyMember)}, func(s *state.EtcdSnapshot, f change) { f(s) }),
	}
}

// retires gives a host the file that says who was retired.
func retires(peer string) change {
	return func(s *state.EtcdSnapshot) { s.Proofs.Retired = state.Known(state.EtcdRetired{Peer: peer, Plan: "p1"}) }
}

// onlyMember takes the peer out of etcd's members.
func onlyMember(s *state.EtcdSnapshot) {
	own := func(list []state.EtcdMember) []state.EtcdMember {
		return slices.DeleteFunc(slices.Clone(list), func(m state.EtcdMember) bool { return m.ID != 0xa })
	}
	s.Local.Members.Value, s.Data.Value.Members = own(s.Local.Members.Value), own(s.Data.Value.Members)
}

func all(changes ...change) change {
	return func(s *state.EtcdSnapshot) {
		for _, c := range changes {
			c(s)
		}
	}
}

// stallFacts are the facts that a pair may find out while it commits nothing. A
// host finds itself sick only then.
func stallFacts() []change {
	long := stalls(StallAfter)
	return []change{
		all(), secondByName, all(long), all(long, secondByName), all(long, sick), all(long, peerSick), all(long, sick, peerSick),
		all(long, peerHangs), all(long, sick, peerHangs), all(stalls(FenceAfter + 1)), all(stalls(FenceAfter+1), stalledAs(0)),
	}
}

var full = flag.Bool("full", false, "try all of the 3000 million snapshots, not a sample of them")

// sample visits a seeded choice of combinations, because all of them take more than half
// an hour.
func sample(dims []dimension, count int, visit func(state.EtcdSnapshot)) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range count {
		s := host()
		for _, d := range dims {
			for !d(&s, rng.IntN(11)) {
			}
		}
		visit(s)
	}
}

// TestEveryCombinationOfFacts tries a sample of the combinations, or all of them
// with -full.
func TestEveryCombinationOfFacts(t *testing.T) {
	if testing.Short() {
		t.Skip("hack/mutate asks what the sentences alone notice")
	}
	n, acted := 0, make(map[state.EtcdAction]int)
	visit := func(s state.EtcdSnapshot) {
		n++
		v := Decide(s)
		acted[v.Action]++
		if why := forbidden(s, v); why != "" && !t.Failed() {
			t.Errorf("%s: %s (%s)\nevidence: %q\n%+v", why, v.Action, v.Rule, v.Evidence, s)
		}
	}
	if *full {
		enumerate(host(), dimensions(), visit)
	} else {
		sample(dimensions(), 300_000, visit)
	}
	for _, a := range []state.EtcdAction{state.EtcdStart, state.EtcdStartStandIn, state.EtcdWriteRecord, state.EtcdGrantQuorum, state.EtcdEmpty, state.EtcdAskFence, state.EtcdStop} {
		if acted[a] == 0 {
			t.Errorf("none of %d snapshots led to %s: the enumeration misses it", n, a)
		}
	}
	t.Logf("%d snapshots: %v", n, acted)
}

// TestTwoHostsThatSeeEachOther checks both sides of one situation.
func TestTwoHostsThatSeeEachOther(t *testing.T) {
	for _, a := range allStates {
		for _, b := range allStates {
			for forced := range 4 {
				one, two := mirror(a, b, forced)
				x, y := Decide(one), Decide(two)
				starts := func(v state.EtcdVerdict) bool { return v.Action == state.EtcdStart }
				if a.Leads() && b.Leads() && (forced == 0 || forced == 3) && (x.Rule != "two-histories" || y.Rule != "two-histories") {
					t.Errorf("%s and %s, forced %d: %s, %s", a, b, forced, x.Rule, y.Rule)
				}
				if a.Leads() != b.Leads() && starts(x) && starts(y) {
					t.Errorf("%s and %s both start", a, b)
				}
				if x.Action == state.EtcdEmpty || y.Action == state.EtcdEmpty {
					t.Errorf("%s and %s: a copy is emptied at once", a, b)
				}
			}
		}
	}
}

// TestTwoHostsThatCommitNothing checks both sides of one stall, for each
// combination of what the two hold, find out and receive from each other.
func TestTwoHostsThatCommitNothing(t *testing.T) {
	type side struct {
		st     state.EtcdState
		stall  time.Duration
		sick   bool
		silent bool // to the other one
		up     bool
	}
	var sides []side
	for _, st := range allStates {
		for _, stall := range []time.Duration{0, StallAfter, FenceAfter + 1} {
			for n := range 8 {
				sides = append(sides, side{st, stall, n&1 != 0 && stall > 0, n&2 != 0, n&4 != 0})
			}
		}
	}
	see := func(s side, changes ...change) state.EtcdSnapshot {
		out := host(append(changes, own(s.st), follows)...)
		out.Local.Stalled = s.stall
		if s.sick {
			sick(&out)
		}
		if !s.up {
			out.Local = state.EtcdLocal{Running: state.Known(false), StandIn: out.Local.StandIn, Stalled: s.stall, Sick: out.Local.Sick}
		}
		return out
	}
	hear := func(s *state.EtcdSnapshot, from state.EtcdSnapshot, by side) {
		if s.Statement = state.Known(Statement(from)); by.silent {
			s.Statement.Value.Age = SilentAfter + 1
		}
	}
	for _, a := range sides {
		for _, b := range sides {
			one, two := see(a), see(b, secondByName)
			two.Host, two.Peer, two.Data.Value.Member = "beta", "alpha", 0xb
			if two.Record.Value.Member != 0 {
				two.Record.Value.Member = 0xb
			}
			was := one
			hear(&one, two, b)
			hear(&two, was, a)
			x, y := Decide(one), Decide(two)
			if why := together(one, two, x, y); why != "" {
				t.Fatalf("%s: %s (%s) and %s (%s)\n%+v\n%+v", why, x.Action, x.Rule, y.Action, y.Rule, a, b)
			}
		}
	}
}

// together returns why two hosts that see each other must not take two steps at
// once, or nothing.
func together(one, two state.EtcdSnapshot, x, y state.EtcdVerdict) string {
	both := func(is func(state.EtcdVerdict) bool) bool { return is(x) && is(y) }
	departs := func(v state.EtcdVerdict) bool { return v.Record != nil && v.Record.State == state.EtcdDeparting }
	yields := func(v state.EtcdVerdict) bool { return v.Record != nil && v.Record.Yields != 0 }
	switch {
	case both(func(v state.EtcdVerdict) bool { return v.Action == state.EtcdStop }):
		return "both stop"
	case both(departs):
		return "both depart"
	case both(yields):
		return "both give their copies up"
	case both(func(v state.EtcdVerdict) bool { return v.Action == state.EtcdAskFence }) && Fault(two) != "":
		return "both have the other fenced, and the second by name does not wait"
	}
	return ""
}

func mirror(a, b state.EtcdState, forced int) (state.EtcdSnapshot, state.EtcdSnapshot) {
	one, two := host(stopped, own(a)), host(stopped, own(b))
	two.Host, two.Peer = "beta", "alpha"
	if two.Record.Value.Member != 0 {
		two.Record.Value.Member = 0xb
	}
	two.Data.Value.Member = 0xb
	if forced&1 != 0 {
		one.Record.Value.Forced.Who = "ops"
	}
	if forced&2 != 0 {
		two.Record.Value.Forced.Who = "ops"
	}
	x, y := Statement(one), Statement(two)
	one.Statement, two.Statement = state.Known(y), state.Known(x)
	return one, two
}
