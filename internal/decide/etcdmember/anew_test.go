package etcdmember

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// A fence of the last seconds that proves nothing must not be the answer to the
// request for another one: Corosync formed a membership right after it.
func TestAFenceThatProvesNothingIsMadeAnew(t *testing.T) {
	// ago dates the fence and lets the peer have joined right after it.
	ago := func(d time.Duration) change {
		return func(s *state.EtcdSnapshot) {
			fenced(s)
			s.Proofs.Fenced.Value.At = s.Uptime - d
			s.Pacemaker.Joined, s.Pacemaker.Unseen = s.Uptime-d+time.Millisecond, true
		}
	}
	for sentence, c := range map[string]struct {
		s    state.EtcdSnapshot
		anew bool
	}{
		"a fence a second before a membership":     {host(gonePeer, givesWay, ago(time.Second)), true},
		"up to ten seconds later":                  {host(gonePeer, givesWay, ago(inVain-1)), true},
		"after that Pacemaker asks the BMC anyway": {host(gonePeer, givesWay, ago(inVain)), false},
		"the first fence":                          {host(gonePeer, givesWay), false},
		"one of another boot": {host(gonePeer, givesWay, ago(time.Second), func(s *state.EtcdSnapshot) {
			s.Proofs.Fenced.Value.Boot = "boot-1"
		}), false},
		"a peer that stalls, and that was fenced a moment ago": {host(stalls(StallAfter), peerSick, ago(time.Second), func(s *state.EtcdSnapshot) {
			s.Pacemaker.Joined = time.Minute
		}), false},
	} {
		v := Decide(c.s)
		if v.Action != state.EtcdAskFence || v.Anew != c.anew {
			t.Errorf("%s: %s (%s), anew %t", sentence, v.Action, v.Rule, v.Anew)
		}
	}
	if v := Decide(host(gonePeer, givesWay, fenced)); v.Anew || v.Rule != "take-over.announce" {
		t.Errorf("a fence that counts: %s, anew %t", v.Rule, v.Anew)
	}
	waits := host(gonePeer, ago(time.Second))
	if v := Decide(waits); v.Anew || v.Action != state.EtcdWait {
		t.Errorf("nobody asks for a fence: %s, anew %t", v.Rule, v.Anew)
	}
}
