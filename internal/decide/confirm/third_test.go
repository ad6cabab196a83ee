package confirm

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Once both hosts gave up their right to go on alone, a confirmation makes nobody lead, and no power is
// cut for it (docs/adr/0097). A host that only began to give it up may be forced, as a pair may.
func TestNobodysWordMakesAHostLeadAmongThree(t *testing.T) {
	members := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 3, Name: "cp-3", Learner: true}}
	three := []state.EtcdMember{members[0], members[1], {ID: 3, Name: "cp-3"}}
	for sentence, c := range map[string]struct {
		record  state.EtcdState
		members []state.EtcdMember
		running bool
		want    Effect
	}{
		"its etcd is stopped":          {state.EtcdMajority, members, false, Useless},
		"its etcd runs":                {state.EtcdMajority, members, true, Useless},
		"three vote":                   {state.EtcdMajority, three, true, Useless},
		"it has only begun to give up": {state.EtcdWidening, members, true, Forced},
	} {
		s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Boot: "b", Nonce: "n", Uptime: 3600e9}
		s.Record = state.Known(state.EtcdRecord{State: c.record, Seq: 4, Cluster: 9, Member: 1, Third: 3})
		s.Data = state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 9, Member: 1, Members: c.members})
		s.Local.Running, s.Local.StandIn = state.Known(c.running), state.Known(state.MemberID(0))
		if c.running {
			s.Local.Members, s.Local.Leader = state.Known(c.members), state.Known(state.MemberID(0))
		}
		s.Pacemaker = state.EtcdPacemaker{Inert: state.Known(false), Contact: state.Known(false), Ring: 8}
		if got, v := Would(s); got != c.want {
			t.Errorf("%s: %v (%s), want %v", sentence, got, v.Rule, c.want)
		}
	}
}
