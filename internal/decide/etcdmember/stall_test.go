package etcdmember

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// stalls makes a pair that has committed nothing for so long, as both hosts see.
func stalls(d time.Duration) change {
	return func(s *state.EtcdSnapshot) {
		s.Local.Stalled = d
		s.Statement.Value.Stalled = d.Truncate(StallStep)
	}
}

func sick(s *state.EtcdSnapshot)     { s.Local.Sick = "its disk does not answer" }
func peerSick(s *state.EtcdSnapshot) { s.Statement.Value.Sick = "its disk does not answer" }
func peerHangs(s *state.EtcdSnapshot) {
	s.Statement.Value.Age, s.Statement.Value.Stalled = SilentAfter+1, 0
}
func secondByName(s *state.EtcdSnapshot) { s.Host, s.Peer = "gamma", "beta" }

// held makes an etcd that was stopped to give way.
func held(s *state.EtcdSnapshot) {
	stopped(s)
	s.Local.Stalled = StallAfter
	s.Statement.Value.Stalled = StallAfter
}

// stalledAs sets the time without a commit that the peer states.
func stalledAs(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Stalled = d }
}

// silentFor sets the age of the peer's statement.
func silentFor(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Age = d }
}

func otherRing(s *state.EtcdSnapshot)   { s.Statement.Value.Ring-- }
func quarantined(s *state.EtcdSnapshot) { s.Local.Quarantine = s.Uptime + 1 }

// heldFor makes an etcd that was stopped after a stall of this length.
func heldFor(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { held(s); s.Local.Stalled, s.Statement.Value.Stalled = d, d }
}

// docs/facts/life.md#certificates, L-C7: two etcds that refuse each other's certificates
// are such a pair.
func TestAPairThatCommitsNothingEnds(t *testing.T) { prove(t, stallSentences()) }

// stallSentences are about a pair that commits nothing although both hosts are
// there.
func stallSentences() []sentence {
	const long = StallAfter
	ask, fence, wait, idle := state.EtcdAskHuman, state.EtcdAskFence, state.EtcdWait, state.EtcdIdle
	start, stop, write := state.EtcdStart, state.EtcdStop, state.EtcdWriteRecord
	return []sentence{
		// A stall, and what is none
		{"a short stall is left alone", host(stalls(long - 1)), idle, "equal.idle"},
		{"one from before the hosts met, too", host(stalls(time.Hour), func(s *state.EtcdSnapshot) { s.Pacemaker.Joined = s.Uptime - long + 1 }), idle, "equal.idle"},
		{"a stand-in of this host is no stall", host(stalls(long), peerSick, standIn(0xb)), idle, "equal.idle"},
		{"nor one of the peer", host(stalls(long), peerSick, peerStandIn(0xa)), idle, "equal.idle"},
		{"an unknown stand-in of the peer is none", host(stalls(long), peerSick, func(s *state.EtcdSnapshot) { s.Statement.Value.StandIn = state.Fact[state.MemberID]{Value: 0xa} }), fence, "stall.fence"},
		{"of three voters one may be missing", host(stalls(long), peerSick, members(alpha, beta, gamma)), idle, "equal.idle"},
		{"a learner holds nothing up", host(stalls(long), peerSick, members(alphaLearner, beta, gamma)), idle, "equal.idle"},
		{"a stand-in that speaks is no stall", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), peerSick, standIn(0xb)), state.EtcdStopStandIn, "lead.end-stand-in"},
		{"a host that leaves does so", host(stalls(long), peerSick, leaves), state.EtcdMoveLeader, "leave.hand-over-leadership"},
		{"a peer that leaves is not fenced", host(stalls(long), peerSick, peerLeaves), idle, "equal.idle"},

		// One of the hosts is at fault
		{"a peer that finds itself sick is fenced", host(stalls(long), peerSick), fence, "stall.fence"},
		{"by the second host by name, too", host(secondByName, stalls(long), peerSick), fence, "stall.fence"},
		{"so is one that says nothing", host(stalls(long), peerHangs), fence, "stall.fence"},
		{"one whose word is as old as it may be is not", host(stalls(long), silentFor(SilentAfter)), wait, "stall.wait"},
		{"a sick peer that departs is fenced", host(stalls(long), peer(state.EtcdDeparting), peerSick), fence, "stall.fence"},
		{"one that has not written yet that it is a voter, too", host(own(state.EtcdSole), peer(state.EtcdLearner), stalls(long), peerSick), fence, "stall.fence"},
		{"one without a record is not", host(stalls(long), peer(state.EtcdNone), peerSick), idle, "equal.idle"},
		{"a sole host has its sick voter fenced", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), peerSick), fence, "stall.fence"},
		{"a voter, which could not go on, fences nobody", host(own(state.EtcdVoter), stalls(long), follows, peerSick), idle, "equal.idle"},
		{"a sick host fences nobody", host(stalls(long), sick), wait, "stall.own"},
		{"nor one whose peer says nothing", host(stalls(long), sick, peerHangs), wait, "stall.own"},
		{"nor a sole one", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), follows, sick, peerHangs), wait, "lead.wait"},
		{"a sick sole host has nobody that goes on", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), follows, sick), wait, "lead.wait"},
		{"two sick hosts ask a person", host(stalls(long), sick, peerSick), ask, "stall.both"},
		{"whatever they hold", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), sick, peerSick), ask, "stall.both"},
		{"what both found before it was a stall is nothing yet", host(stalls(long-1), sick, peerSick), idle, "equal.idle"},
		{"nor what one found", host(stalls(long-1), sick), idle, "equal.idle"},
		{"a sick host whose etcd was stopped gives way still", host(secondByName, held, sick), write, "stall.depart"},
		{"unless it is the first by name: it starts", host(held, sick), start, "equal.start"},
		{"so does one whose peer is sick, too", host(held, sick, peerSick), start, "equal.start"},

		// Nothing tells them apart
		{"the first by name waits where nothing tells them apart", host(stalls(long)), wait, "stall.wait"},
		{"the second gives way", host(secondByName, stalls(long)), stop, "stall.give-way"},
		{"one step before the peer tells the whole stall", host(secondByName, stalls(long), stalledAs(long-StallStep)), stop, "stall.give-way"},
		{"not before the peer saw the stall itself", host(secondByName, stalls(long), stalledAs(0)), idle, "equal.idle"},
		{"nor where the peer's etcd is down", host(secondByName, stalls(long), peerHalted), idle, "equal.idle"},
		{"nor to a voter, which could not go on: it waits", host(secondByName, stalls(long), peer(state.EtcdVoter), follows), wait, "stall.wait"},
		{"a voter gives way to a pair", host(secondByName, own(state.EtcdVoter), stalls(long), follows), stop, "stall.give-way"},
		{"whatever its name", host(own(state.EtcdVoter), stalls(long), follows), stop, "stall.give-way"},
		{"a pair waits for a voter", host(stalls(long), peer(state.EtcdVoter), follows), wait, "stall.wait"},
		{"of two voters neither could go on: they ask a person", host(own(state.EtcdVoter), peer(state.EtcdVoter), stalls(long), follows), ask, "stall.unmarked"},
		{"not before the peer saw the stall itself, too", host(own(state.EtcdVoter), peer(state.EtcdVoter), stalls(long), stalledAs(0), follows), idle, "equal.idle"},
		{"nor of an etcd that was stopped", host(own(state.EtcdVoter), peer(state.EtcdVoter), held), start, "equal.start"},
		{"nor beside a learner", host(own(state.EtcdVoter), peer(state.EtcdLearner), stalls(long), follows), idle, "equal.idle"},
		{"a second host that gives no way is waited for", host(stalls(FenceAfter)), wait, "stall.wait"},
		{"and fenced in the end", host(stalls(FenceAfter + 1)), fence, "stall.last-resort"},
		{"not where it sees no stall", host(stalls(FenceAfter+1), stalledAs(0)), idle, "equal.idle"},
		{"not by a voter", host(own(state.EtcdVoter), stalls(FenceAfter+1), follows), stop, "stall.give-way"},
		{"a voter that gives no way, too", host(stalls(FenceAfter+1), peer(state.EtcdVoter), follows), fence, "stall.last-resort"},
		{"by a sole host, too", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(FenceAfter+1), follows), fence, "stall.last-resort"},
		{"not one that is about to write that it is a voter", host(own(state.EtcdSole), peer(state.EtcdLearner), stalls(FenceAfter+1), follows), wait, "lead.wait"},
		{"nor by one that departs", host(own(state.EtcdDeparting), stalls(FenceAfter+1), follows), write, "equal.stay"},
		{"which waits before that", host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(FenceAfter), follows), wait, "stall.wait"},
		{"nor by one whose etcd was stopped", host(heldFor(FenceAfter + 1)), start, "equal.start"},

		// The second by name gave way
		{"then it departs", host(secondByName, held), write, "stall.depart"},
		{"the first by name, whose etcd ended by itself, does not", host(held), start, "equal.start"},
		{"nor one whose peer is a voter", host(secondByName, held, peer(state.EtcdVoter)), start, "equal.start"},
		{"nor one whose peer commits again", host(secondByName, held, stalledAs(0)), start, "equal.start"},
		{"nor one whose peer's etcd is down", host(secondByName, held, peerHalted), start, "equal.start"},
		{"and waits until the peer has read that", host(secondByName, held, own(state.EtcdDeparting), unread), wait, "stall.await"},
		{"and gives its copy up", host(secondByName, held, own(state.EtcdDeparting)), write, "stall.yield"},
		{"a voter departs, too", host(secondByName, held, own(state.EtcdVoter)), write, "stall.depart"},
		{"whatever its name is", host(held, own(state.EtcdVoter), unread), write, "stall.depart"},
		{"unless the peer stops", host(secondByName, held, own(state.EtcdDeparting), peerLeaves), start, "equal.start"},
		{"or departs, too", host(secondByName, held, own(state.EtcdDeparting), peer(state.EtcdDeparting)), start, "equal.start"},
		{"or is the one that is sick", host(secondByName, held, peerSick), start, "equal.start"},
		{"an etcd that was stopped for another reason is started", host(secondByName, stopped), start, "equal.start"},
		{"whatever the peer sees", host(secondByName, stopped, stalledAs(long)), start, "equal.start"},

		// The peer is sole
		{"a voter gives way to a sole host, whatever its name", host(own(state.EtcdVoter), peer(state.EtcdSole), stalls(long)), stop, "stall.follower"},
		{"not where it is sick itself: it is fenced", host(own(state.EtcdVoter), peer(state.EtcdSole), follows, stalls(long), sick), wait, "follow.catch-up"},
		{"nor to one that is sick", host(own(state.EtcdVoter), peer(state.EtcdSole), follows, stalls(long), peerSick), wait, "follow.catch-up"},
		{"nor one that does not list it", host(own(state.EtcdVoter), peer(state.EtcdSole), peerHeads, stalls(long), peerMembers(beta)), stop, "follow.removed"},
		{"a pair becomes a voter first", host(peer(state.EtcdSole), stalls(long)), write, "follow.demote"},
		{"and gives its copy up, then", host(own(state.EtcdVoter), peer(state.EtcdSole), held), write, "stall.follower-yields"},
		{"what is damaged is lost", host(own(state.EtcdVoter), peer(state.EtcdSole), held, copyDamaged), write, "follow.lost-copy"},
		{"one that the sole host does not list is given up as ever", host(own(state.EtcdVoter), peer(state.EtcdSole), peerHeads, held, peerMembers(beta)), write, "follow.give-up"},
		{"and a pair's only as a voter's", host(peer(state.EtcdSole), held), write, "follow.demote"},

		// After a stall
		{"a learner is promoted later after a stall", like("a learner is promoted when in sync", quarantined), wait, "lead.quarantine"},
		{"at the end of that time", like("a learner is promoted when in sync", quarantined, func(s *state.EtcdSnapshot) { s.Local.Quarantine = s.Uptime }), state.EtcdPromote, "lead.promote"},
		{"one that is not in sync is waited for as ever", like("and not before", quarantined), wait, "lead.wait"},
	}
}

func TestAYieldNamesTheCopyThatIsGivenUp(t *testing.T) {
	v := Decide(host(secondByName, held, own(state.EtcdDeparting)))
	if v.Record == nil || v.Record.State != state.EtcdDeparting || v.Record.Yields != 0xa {
		t.Errorf("%+v", v.Record)
	}
	if v := Decide(host(secondByName, held)); v.Record == nil || v.Record.State != state.EtcdDeparting || v.Record.Yields != 0 {
		t.Errorf("%+v", v.Record)
	}
}

func TestWhoIsAtFaultHoldsUpNoFence(t *testing.T) {
	for sentence, c := range map[string]struct {
		s    state.EtcdSnapshot
		want bool
	}{
		"a sick peer":                                    {host(stalls(StallAfter), peerSick), true},
		"a silent peer":                                  {host(stalls(StallAfter), peerHangs), true},
		"a silent peer, for the second by name":          {host(secondByName, stalls(StallAfter), peerHangs), false},
		"a sick one, for the second by name":             {host(secondByName, stalls(StallAfter), peerSick), true},
		"a peer that nothing blames":                     {host(stalls(StallAfter)), false},
		"a stall that has only begun":                    {host(stalls(StallAfter-1), peerSick), false},
		"this host is sick itself":                       {host(stalls(StallAfter), sick, peerSick), false},
		"a peer that is gone is a race":                  {host(stalls(StallAfter), peerSick, gonePeer), false},
		"what it said in another membership is no fault": {host(stalls(StallAfter), peerSick, otherRing), false},
		"a host that stops blames nobody":                {host(stalls(StallAfter), peerSick, leaves), false},
		"word that is as old as it may be":               {host(stalls(StallAfter), silentFor(SilentAfter)), false},
	} {
		if got := Fault(c.s); (got != "") != c.want {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

func TestEachStallOfABootMakesALearnerWaitLonger(t *testing.T) {
	want := []time.Duration{time.Minute, time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour, time.Hour}
	for stalls, d := range want {
		if got := Quarantine(stalls); got != d {
			t.Errorf("after %d: %s, want %s", stalls, got, d)
		}
	}
}

func TestWhoGoesOnAfterAStallIsTold(t *testing.T) {
	for sentence, c := range map[string]struct {
		s    state.EtcdSnapshot
		want bool
	}{
		"a fence ends it":                  {host(stalls(StallAfter), peerSick), true},
		"so does a peer that departs":      {host(stalls(StallAfter), peer(state.EtcdDeparting)), true},
		"a fence without a stall does not": {host(peerStopped, leaderless(FenceAfter+1)), false},
		"who gives way does not go on":     {host(secondByName, held), false},
		"who stops does not, either":       {host(secondByName, stalls(StallAfter)), false},
		"waiting ends nothing":             {host(stalls(StallAfter)), false},
		"so does one whose disk is full":   {host(peer(state.EtcdDeparting), peerYields(0xb), peerCrowded), true},
		"but not while it is a voter":      {host(peerCrowded), false},
		"nor after the peer is lost":       {host(gonePeer, fenced, peerCrowded), false},
	} {
		if v := Decide(c.s); GoesOn(c.s, v) != c.want {
			t.Errorf("%s: %s", sentence, v.Rule)
		}
	}
}

func TestAHostThatWorksIsNeverSilentInAStallOfItsPeer(t *testing.T) {
	s := host(func(s *state.EtcdSnapshot) { s.Statement.Value.Stalled = 3 * StallStep })
	if st := Statement(s); st.PeerStalled != 3*StallStep || st.Stalled != 0 {
		t.Errorf("%+v", st)
	}
	s.Pacemaker.Ring++ // a statement from another membership is not repeated
	if st := Statement(s); st.PeerStalled != 0 {
		t.Errorf("%+v", st)
	}
}
