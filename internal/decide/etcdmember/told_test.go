package etcdmember

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatAHostTellsItsPeer compares a whole statement.
func TestWhatAHostTellsItsPeer(t *testing.T) {
	s := host(leaves, standIn(0xb), stalls(StallAfter+StallStep-1), sick)
	s.Addresses, s.Hardware = []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []string{"02:00:00:00:00:01"}
	want := state.EtcdStatement{
		Boot: "boot-2", Ring: 7, SeenSeq: 2, Record: s.Record.Value, Data: s.Data, Running: state.Known(true),
		Leads: true, StandIn: state.Known(state.MemberID(0xb)), Members: s.Local.Members, Leaving: true,
		Stalled: StallAfter, Sick: "its disk does not answer", PeerStalled: StallAfter, Addresses: s.Addresses, Hardware: s.Hardware,
	}
	if diff := cmp.Diff(want, Statement(s), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
	if Statement(host()).Leaderless || !Statement(host(noLeader)).Leaderless {
		t.Error("whether etcd knows a leader is told wrongly")
	}
	for sentence, c := range map[string]struct {
		stalled, leaderless, earlier time.Duration
		leads                        bool
	}{
		"a stall of this run":                {stalled: 16 * time.Second, leaderless: 16*time.Second + time.Millisecond},
		"one that carries over":              {stalled: 25 * time.Second, leaderless: 5*time.Second - time.Millisecond, earlier: StallAfter},
		"or a moment less":                   {stalled: 25 * time.Second, leaderless: 5*time.Second + time.Millisecond, earlier: StallAfter},
		"one that has a leader tells none":   {stalled: 25 * time.Second, leads: true},
		"one that does not stall tells none": {leaderless: time.Minute},
	} {
		s := host()
		if !c.leads {
			s = host(noLeader)
		}
		s.Local.Stalled, s.Local.Leaderless = c.stalled, c.leaderless
		if got := Statement(s).Earlier; got != c.earlier {
			t.Errorf("%s: %s from before", sentence, got)
		}
	}
	for sentence, s := range map[string]state.EtcdSnapshot{
		"of a peer that is gone there is no membership to name":      host(gonePeer),
		"what a host does not know of itself does not count":         host(unreadable),
		"what is said while contact is unknown counts for nothing":   host(at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact.Known = false })),
		"a host that forgot its record says so by no ring":           host(unreadable, follows),
		"nothing was said in no membership, and nothing is answered": host(gonePeer, noRing),
	} {
		if st := Statement(s); st.Ring != 0 {
			t.Errorf("%s: %+v", sentence, st)
		}
	}
}

func TestWhoSaysThatItHasNotGoneOnAlone(t *testing.T) {
	for _, st := range allStates {
		want := st != state.EtcdNone && !st.Leads()
		if got := Hears(host(peer(st))); got != want {
			t.Errorf("%s: %t", st, got)
		}
	}
	for sentence, c := range map[string]change{
		"an unknown statement":   unsaid,
		"another membership":     at(func(s *state.EtcdSnapshot) { s.Statement.Value.Ring = 6 }),
		"no membership":          noRing,
		"a peer that is gone":    at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(false) }),
		"unknown contact":        at(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact.Known = false }),
		"a statement of nothing": stateless,
	} {
		if Hears(host(c)) {
			t.Errorf("%s is heard", sentence)
		}
	}
}

func TestWhoseWordIsThatThePeerIsOff(t *testing.T) {
	if !Confirmed(host(gonePeer, confirms)) {
		t.Error("a person's word does not stand")
	}
	for sentence, c := range map[string][]change{
		"nobody's":                            {gonePeer},
		"one that was taken back":             {gonePeer, confirms, nobodySays},
		"one about a peer in contact":         {confirms},
		"one of a person without a name":      {gonePeer, confirms, anonymous},
		"one of another boot":                 {gonePeer, confirms, at(func(s *state.EtcdSnapshot) { s.Boot = "boot-3" })},
		"one of no boot":                      {gonePeer, confirms, bootless},
		"one of before the peer joined again": {gonePeer, confirms, at(func(s *state.EtcdSnapshot) { s.Pacemaker.Joined = s.Uptime })},
		"one of that very moment":             {gonePeer, confirms, sameMoment},
	} {
		if Confirmed(host(c...)) {
			t.Errorf("%s word counts", sentence)
		}
	}
}

// TestMoreThanOneFact proves what only two or more unusual facts at once show.
func TestMoreThanOneFact(t *testing.T) { prove(t, unusualSentences()) }

func unusualSentences() []sentence {
	ask, wait, idle := state.EtcdAskHuman, state.EtcdWait, state.EtcdIdle
	return []sentence{
		{"a person cannot force a copy that was given up", host(gonePeer, unheard, forces, yields(0xa)), ask, "gone.not-heard"},
		{"nor one that is no voter's", host(gonePeer, unheard, forces, members(alphaLearner, beta)), ask, "gone.not-heard"},
		{"nor one of another member", host(gonePeer, unheard, forces, dataMember(0xd)), ask, "gone.not-heard"},
		{"nor one that was not examined", host(gonePeer, unheard, forces, copyUnknown), ask, "gone.not-heard"},
		{"a survivor whose stand-in is left waits for the peer's word", host(own(state.EtcdSole), unsaid, standIn(0xb)), wait, "silent.wait"},
		{"what lies in a copy that was not examined lets nobody leave", host(stopped, standIn(0xb), leavingFor(0), copyUnknown), state.EtcdStop, "leave.stop"},

		{"a learner has no stand-in among two others", host(own(state.EtcdTakingOver), peer(state.EtcdVoter), peerStopped, noLeader, members(alphaLearner, gamma, beta)), wait, "lead.taking-over"},
		{"the peer is removed once this host leads, in contact too", host(own(state.EtcdTakingOver), peer(state.EtcdVoter), peerStopped, standIn(0xb)), state.EtcdRemove, "lead.remove"},
		{"who is a voter already is not promoted", host(own(state.EtcdSole), peer(state.EtcdLearner), members(alpha, state.EtcdMember{ID: 0xb, InSync: true})), wait, "lead.wait"},
		{"a record without a number has no marker", host(own(state.EtcdSole), peer(state.EtcdVoter), at(func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Seq = 0 })), state.EtcdMark, "lead.mark"},

		{"an unknown stand-in has no member", host(peer(state.EtcdSole), peerHeads, at(func(s *state.EtcdSnapshot) {
			s.Statement.Value.StandIn = state.Fact[state.MemberID]{Value: 0xa}
		})), wait, "follow.wait"},
		{"a copy that does not list itself is not yielded before the peer has answered", like("a copy that is listed is never emptied", members(), unread), state.EtcdWriteRecord, "follow.demote"},
		{"a copy of another member is lost, not yielded", like("a copy that is listed is never emptied", own(state.EtcdVoter), members(), dataMember(0xd)), state.EtcdWriteRecord, "follow.lost-copy"},
		{"a learner that runs is not joined again", like("a listed learner is simply started", at(func(s *state.EtcdSnapshot) {
			s.Local.Running, s.Local.Members = state.Known(true), state.Known([]state.EtcdMember{beta})
		})), wait, "follow.catch-up"},
		{"the cluster of an accepted learner is the peer's", like("the reply was lost: the listed learner is used", at(func(s *state.EtcdSnapshot) { s.Record.Value.Cluster = 0 })), state.EtcdWriteRecord, "follow.accept"},

		{"the hand-over: nothing is adopted beside a copy that nobody examined", host(own(state.EtcdNone), peer(state.EtcdVoter), peerCopyUnknown), ask, "equal.no-record"},
		{"a learner with a copy of another member yields nothing", host(own(state.EtcdLearner), stopped, dataMember(0xd), members()), wait, "equal.unusable-wait"},
		{"a copy of another member is not started", host(stopped, dataMember(0xd), unread), wait, "equal.unusable-wait"},
		{"a learner among two others takes over from nobody", like("the peer yielded: the take-over is recorded", members(alphaLearner, gamma, beta)), idle, "equal.idle"},
		{"who serves and has not heard a peer whose disk was replaced does nothing", host(unheard, blank, peerStopped), idle, "equal.idle"},
		{"a learner that leads by mistake is not sole", host(members(alphaLearner)), idle, "equal.idle"},
		{"a pair does not pair twice with one record", host(peer(state.EtcdVoter), pairedBefore, members(alpha, marks(beta, 2))), idle, "equal.idle"},
		{"nor as if it were a voter", host(peer(state.EtcdVoter), pairedBefore, members(marks(alpha, 4), marks(beta, 2))), idle, "equal.idle"},
		{"a voter that is not marked waits for its marker", host(own(state.EtcdVoter), peer(state.EtcdVoter), follows, members(alpha, marks(beta, 2))), idle, "equal.idle"},
	}
}

func TestTheEvidenceNamesWhatDecided(t *testing.T) {
	for sentence, c := range map[string]struct {
		snapshot state.EtcdSnapshot
		want     string
	}{
		"a promise to wait": {like("waiting is proof"), "proof that it cannot act: waiting, beta has read this host's record and waits with its etcd stopped"},
		"a forced record":   {host(iForced), "own record: pair as member a, forced by ops"},
	} {
		if got := Decide(c.snapshot).Evidence; !slices.Contains(got, c.want) {
			t.Errorf("%s: %q", sentence, got)
		}
	}
	peerForced := func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Forced.Who = "ops" }
	for sentence, s := range map[string]state.EtcdSnapshot{
		"nobody forced":       host(own(state.EtcdTakingOver), peer(state.EtcdSole), peerStopped),
		"persons forced both": host(own(state.EtcdTakingOver), peer(state.EtcdSole), peerStopped, iForced, peerForced),
	} {
		for _, line := range Decide(s).Evidence {
			if strings.HasPrefix(line, "proof") {
				t.Errorf("%s, and a peer that went on alone promises to wait: %s", sentence, line)
			}
		}
	}
}

func TestAHostWithoutARecordDoesNotLeadWhereNobodyDoes(t *testing.T) {
	if Statement(host(own(state.EtcdNone), noLeader)).Leads {
		t.Error("it says that it leads")
	}
}

func TestTheTableIsToldWhole(t *testing.T) {
	n := 0
	for _, s := range table {
		n += len(s.rules)
	}
	if got := len(Rules()); got != n || n < 60 {
		t.Errorf("%d of %d rules are told", got, n)
	}
}
