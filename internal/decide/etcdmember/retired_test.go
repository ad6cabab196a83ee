package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestALoneSurvivorStartsAloneWhileItsRetiredPeerHasNoSuccessor: after a host was taken away
// nobody can prove that it is off (docs/adr/0083), and a newcomer may take days.
func TestALoneSurvivorStartsAloneWhileItsRetiredPeerHasNoSuccessor(t *testing.T) {
	alone := all(own(state.EtcdSole), onlyMember, retires("beta"))
	booted := all(rebooted, func(s *state.EtcdSnapshot) { s.Pacemaker.Inert = state.Known(false) })
	for _, c := range []struct {
		sentence string
		snapshot state.EtcdSnapshot
		action   state.EtcdAction
		rule     string
	}{
		{"it ends the wait of a boot", host(rebooted, alone), state.EtcdGrantQuorum, "alone.retired"},
		{"then it starts etcd", host(booted, alone), state.EtcdStart, "take-over.start"},
		{"then it goes on", host(gonePeer, alone), state.EtcdIdle, "gone.sole-alone"},
		{"a pair learns nothing from it", host(rebooted, own(state.EtcdPair), onlyMember, retires("beta")), state.EtcdAskHuman, "alone.wait"},
		{"nor does a host that was taking over", host(rebooted, own(state.EtcdTakingOver), onlyMember, retires("beta")), state.EtcdAskHuman, "alone.unproved"},
		{"nor one whose peer has another name", host(rebooted, own(state.EtcdSole), onlyMember, retires("gamma")), state.EtcdAskHuman, "alone.unproved"},
		{"nor one that lists another voter", host(rebooted, own(state.EtcdSole), retires("beta")), state.EtcdAskHuman, "alone.unproved"},
		{"nor a stopped one that lists another voter", host(booted, own(state.EtcdSole), retires("beta")), state.EtcdWait, "gone.unproved"},
	} {
		v := Decide(c.snapshot)
		if v.Action != c.action || v.Rule != c.rule {
			t.Errorf("%s: %s (%s), want %s (%s)", c.sentence, v.Action, v.Rule, c.action, c.rule)
		}
	}
}
