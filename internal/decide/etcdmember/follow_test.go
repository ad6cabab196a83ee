package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestFollowing(t *testing.T) { prove(t, followingSentences()) }

// followingSentences are about a host whose peer went on alone.
func followingSentences() []sentence {
	return []sentence{
		{"a newcomer whose etcd is down is simply started again", like("or by the newcomer if it leads", halted), state.EtcdStart, "follow.start"},
		{"a host that was overruled keeps its record while a stand-in speaks here", like("4 both sole, the other forced: this one may never start alone again", standIn(0xa)), state.EtcdWait, "follow.catch-up"},
		{"who leads and finds its removal in its own copy alone gives the copy up", like("a copy that is listed is never emptied", members()), state.EtcdWriteRecord, "follow.yield"},
		{"a named learner was started once: it is disowned, not accepted", like("the reply was lost: the listed learner is used", peerMembers(beta, named(newcomer))), state.EtcdWriteRecord, "follow.disown"},
		{"a voter without a name is not accepted as a learner", like("the reply was lost: the listed learner is used", peerMembers(beta, namelessVoter)), state.EtcdWait, "follow.await"},
		{"who departed and is still listed is a voter until it is marked again", like("a listed learner is simply started", own(state.EtcdDeparting)), state.EtcdWriteRecord, "follow.demote"},
		{"a learner that the peer removed stops, whatever its own copy lists", like("the newcomer writes voter", peerMembers()), state.EtcdStop, "follow.removed"},
		{"a newcomer that does not lead marks nobody, and keeps the copy that runs", like("or by the newcomer if it leads", member(0xb)), state.EtcdWait, "follow.catch-up"},
		{"a learner starts from the copy that it has, though that does not list it", like("a learner whose own copy does not list it catches up", halted), state.EtcdStart, "follow.start"},
		{"what a person forced is forgotten with the copy", like("a copy that is not listed is given up in the record first", iForced), state.EtcdWriteRecord, "follow.give-up"},
		{"the proof of a take-over is forgotten with the copy", like("a copy that is not listed is given up in the record first", proven), state.EtcdWriteRecord, "follow.give-up"},
		{"a copy that nobody lists is given up, not yielded", like("a copy that is not listed is given up in the record first", members()), state.EtcdWriteRecord, "follow.give-up"},
		{"who gave its copy up waits until the peer has removed it", like("a copy that is listed is never emptied", yields(0xa)), state.EtcdWait, "follow.yielded"},
		{"who is a voter again was not forced", like("a copy that is listed is never emptied", iForced), state.EtcdWriteRecord, "follow.demote"},
		{"who is a voter again has no proof", like("a copy that is listed is never emptied", proven), state.EtcdWriteRecord, "follow.demote"},
		{"only a learner joins from nothing", like("a listed learner is simply started", own(state.EtcdVoter)), state.EtcdWriteRecord, "follow.lost-copy"},
		{"a half-emptied copy is not joined from", like("a listed learner is simply started", copyDamaged), state.EtcdWriteRecord, "follow.lost-copy"},
		{"nothing is joined as a voter", like("a listed learner is simply started", peerMembers(beta, namelessVoter)), state.EtcdWriteRecord, "follow.lost-copy"},
		{"a newcomer stops before a stand-in of its peer, though the peer says sole", like("the newcomer writes voter", peerStandIn(0xa)), state.EtcdStop, "follow.stop"},
		{"nobody marks itself while the peer lists it not", like("or by the newcomer if it leads", peerMembers()), state.EtcdWait, "follow.peer-not-leading"},
		{"a learner does not mark itself", like("or by the newcomer if it leads", members(beta, alphaLearner)), state.EtcdWait, "follow.catch-up"},
		{"a host without a record that runs beside a survivor is not one that was removed", like("a learner whose own copy does not list it catches up", own(state.EtcdNone)), state.EtcdStop, "follow.removed"},
		{"a learner that has a copy is started for a peer that was sole too", like("4 both sole: refuse", own(state.EtcdLearner)), state.EtcdStart, "follow.start"},
	}
}
