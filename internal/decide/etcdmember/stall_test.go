package etcdmember

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/state"
)

// stalls is a pair that has committed nothing for so long, as both hosts see.
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

// held is an etcd that was stopped to give way.
func held(s *state.EtcdSnapshot) {
	stopped(s)
	s.Local.Stalled = StallAfter
	s.Statement.Value.Stalled = StallAfter
}

func TestAPairThatCommitsNothingEnds(t *testing.T) {
	const long = StallAfter
	for sentence, c := range map[string]struct {
		s      state.EtcdSnapshot
		rule   string
		action state.EtcdAction
	}{
		"a short stall is left alone":                            {host(stalls(long - 1)), "equal.idle", state.EtcdIdle},
		"one from before the hosts met, too":                     {host(stalls(time.Hour), func(s *state.EtcdSnapshot) { s.Pacemaker.Joined = s.Uptime - long + 1 }), "equal.idle", state.EtcdIdle},
		"a peer that finds itself sick is fenced":                {host(stalls(long), peerSick), "stall.fence", state.EtcdAskFence},
		"by the second host by name, too":                        {host(secondByName, stalls(long), peerSick), "stall.fence", state.EtcdAskFence},
		"so is one that says nothing":                            {host(stalls(long), peerHangs), "stall.fence", state.EtcdAskFence},
		"a sick host fences nobody":                              {host(stalls(long), sick), "stall.own", state.EtcdWait},
		"nor one whose peer says nothing":                        {host(stalls(long), sick, peerHangs), "stall.own", state.EtcdWait},
		"two sick hosts ask a person":                            {host(stalls(long), sick, peerSick), "stall.both", state.EtcdAskHuman},
		"a host that leaves does so":                             {host(stalls(long), peerSick, leaves), "leave.hand-over-leadership", state.EtcdMoveLeader},
		"a peer that leaves is not fenced":                       {host(stalls(long), peerSick, func(s *state.EtcdSnapshot) { s.Statement.Value.Leaving = true }), "equal.idle", state.EtcdIdle},
		"the first by name waits where nothing tells them apart": {host(stalls(long)), "stall.wait", state.EtcdWait},
		"the second gives way":                                   {host(secondByName, stalls(long)), "stall.give-way", state.EtcdStop},
		"not before the peer saw the stall itself":               {host(secondByName, stalls(long), func(s *state.EtcdSnapshot) { s.Statement.Value.Stalled = 0 }), "equal.idle", state.EtcdIdle},
		"then it departs":                                        {host(secondByName, held), "stall.depart", state.EtcdWriteRecord},
		"and waits until the peer has read that":                 {host(secondByName, held, own(state.EtcdDeparting), func(s *state.EtcdSnapshot) { s.Statement.Value.SeenSeq = 3 }), "stall.await", state.EtcdWait},
		"and gives its copy up":                                  {host(secondByName, held, own(state.EtcdDeparting)), "stall.yield", state.EtcdWriteRecord},
		"unless the peer stops":                                  {host(secondByName, held, own(state.EtcdDeparting), func(s *state.EtcdSnapshot) { s.Statement.Value.Leaving = true }), "equal.start", state.EtcdStart},
		"or departs, too":                                        {host(secondByName, held, own(state.EtcdDeparting), peer(state.EtcdDeparting)), "equal.start", state.EtcdStart},
		"or is the one that is sick":                             {host(secondByName, held, peerSick), "equal.start", state.EtcdStart},
		"an etcd that was stopped for another reason is started": {host(secondByName, stopped), "equal.start", state.EtcdStart},
		"a second host that gives no way is fenced in the end":   {host(stalls(FenceAfter + 1)), "stall.last-resort", state.EtcdAskFence},
		"a sole host has its sick voter fenced":                  {host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), peerSick), "stall.fence", state.EtcdAskFence},
		"a voter gives way to a sole host, whatever its name":    {host(own(state.EtcdVoter), peer(state.EtcdSole), stalls(long)), "stall.follower", state.EtcdStop},
		"and gives its copy up, then":                            {host(own(state.EtcdVoter), peer(state.EtcdSole), held), "stall.follower-yields", state.EtcdWriteRecord},
		"a stand-in that speaks is no stall":                     {host(own(state.EtcdSole), peer(state.EtcdVoter), stalls(long), peerSick, standIn(0xb)), "lead.end-stand-in", state.EtcdStopStandIn},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := Decide(c.s)
			if v.Rule != c.rule || v.Action != c.action {
				t.Errorf("%s (%s), want %s (%s)", v.Rule, v.Action, c.rule, c.action)
			}
		})
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
		"a sick peer":                   {host(stalls(StallAfter), peerSick), true},
		"a silent peer":                 {host(stalls(StallAfter), peerHangs), true},
		"a peer that nothing blames":    {host(stalls(StallAfter)), false},
		"a stall that has only begun":   {host(stalls(StallAfter-1), peerSick), false},
		"this host is sick itself":      {host(stalls(StallAfter), sick, peerSick), false},
		"a peer that is gone is a race": {host(stalls(StallAfter), peerSick, gonePeer), false},
	} {
		if got := Fault(c.s); (got != "") != c.want {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

func TestALearnerWaitsForItsPromotionAfterAStall(t *testing.T) {
	learner := []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta", Learner: true, InSync: true}}
	s := host(own(state.EtcdSole), peer(state.EtcdLearner), members(learner...))
	s.Local.Quarantine = s.Uptime + 1
	if v := Decide(s); v.Rule != "lead.quarantine" || v.Action != state.EtcdWait {
		t.Errorf("%+v", v)
	}
	s.Local.Quarantine = s.Uptime
	if v := Decide(s); v.Rule != "lead.promote" {
		t.Errorf("%+v", v)
	}
}
