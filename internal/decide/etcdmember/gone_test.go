package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAlone(t *testing.T) { prove(t, aloneSentences()) }

// aloneSentences are about a host whose peer is gone or has stated nothing, or that
// knows too little.
func aloneSentences() []sentence {
	return []sentence{
		{"a person's word is proof enough for who may go on", like("pair, peer gone cleanly and never fenced: it is fenced", forces), state.EtcdWriteRecord, "take-over.announce"},
		{"a statement of no membership counts for nothing, and a survivor goes on serving", like("the survivor adds a learner once the copy is empty", noRing), state.EtcdIdle, "silent.sole"},
		{"a person forces a pair that has not heard its peer", like("a pair that has not heard asks for no fence", forces), state.EtcdWriteRecord, "gone.forced"},
		{"a copy of no member in the record is not started for a take-over", like("local etcd is down: it is started plainly first", member(0x0)), state.EtcdAskHuman, "take-over.no-copy"},
		{"a person's word of the moment in which the peer joined proves nothing", like("a person forces a pair: recorded first", sameMoment), state.EtcdAskHuman, "alone.wait"},
		{"a statement without a record counts for nothing", like("a healthy pair is left alone", stateless), state.EtcdIdle, "silent.run"},
		{"who does not run has no leader to miss, and asks for no fence", like("pair, peer gone cleanly and never fenced: it is fenced", halted), state.EtcdWait, "gone.unproved"},
		{"a survivor that takes over waits for a peer that has not spoken, and is not sole", like("contact ends a fenced proof", unsaid), state.EtcdWait, "silent.wait"},
		{"a peer that is removed already needs no take-over", like("peer fenced and heard: the take-over is recorded first", members(alpha)), state.EtcdWriteRecord, "take-over.sole"},
		{"three voters are too many, and a copy in use is not examined", like("exactly two voters", dataMember(0x0)), state.EtcdAskHuman, "take-over.too-many"},
		{"a learner's membership never takes over, though a stand-in is left", like("then the stand-in is stopped", members(beta, alphaLearner)), state.EtcdAskHuman, "take-over.not-a-voter"},
		{"a survivor restarts only a copy that is whole", like("sole whose etcd died restarts in place", copyDamaged), state.EtcdWait, "gone.unproved"},
		{"a yield of a peer that is gone proves nothing", like("a yield is proof enough", gonePeer), state.EtcdWait, "gone.unproved"},
		{"unknown whether this host is inert: wait", like("a healthy pair is left alone", inertUnknown), state.EtcdWait, "unknown.local"},
		{"unknown whether a stand-in speaks: wait", like("a healthy pair is left alone", standInUnknown), state.EtcdWait, "unknown.local"},
		{"a leader that is missing for a minute and not longer asks for no fence", like("pair, peer lost: wait until it is fenced", leaderless(FenceAfter)), state.EtcdWait, "gone.unproved"},
		{"a boot without a name has heard nobody", like("pair, peer gone cleanly and never fenced: it is fenced", bootless), state.EtcdWait, "gone.unproved"},
		{"a learner asks for no fence", like("pair, peer gone cleanly and never fenced: it is fenced", members(beta, alphaLearner)), state.EtcdWait, "gone.unproved"},
		{"a fence of the moment in which the peer joined proves nothing", like("a fence of before the peer joined proves nothing", sameMoment), state.EtcdWait, "gone.unproved"},
		{"a fence of no boot proves nothing", like("a fence of an earlier boot proves nothing", bootless), state.EtcdWait, "gone.unproved"},
		{"a fence that nobody told of proves nothing", like("peer fenced and heard: the take-over is recorded first", noFence), state.EtcdWait, "gone.unproved"},
		{"a take-over keeps no pairing", like("peer fenced and heard: the take-over is recorded first", pairedBefore), state.EtcdWriteRecord, "take-over.announce"},
		{"who departed is told that it is not eligible, heard or not", like("pair that has not heard: a person", own(state.EtcdDeparting)), state.EtcdAskHuman, "gone.not-eligible"},
		{"a person forces a voter", like("a voter is not eligible", forces), state.EtcdWriteRecord, "gone.forced"},
		{"a person cannot force a learner", like("a learner is not eligible", forces), state.EtcdAskHuman, "gone.not-eligible"},
		{"a person forces who departed", like("who departs is not eligible", forces), state.EtcdWriteRecord, "gone.forced"},
		{"nobody is sole before it leads", like("the stand-in votes after the record", members(alpha)), state.EtcdWait, "take-over.wait"},
		{"a stand-in of an etcd that is down is not ended twice", like("but not when it has not heard the peer in this boot", standIn(0xa)), state.EtcdWait, "gone.unproved"},
		{"a survivor whose etcd is down waits for the first word of its peer", like("1 the survivor leads", noRing), state.EtcdWait, "silent.wait"},
		{"no data, alone: a person", like("3 no data here, the other is pair: a person", rebooted), state.EtcdAskHuman, "alone.no-copy"},
		{"a copy of another member than the record's does not start alone", like("inert and pair: waits", member(0x0)), state.EtcdAskHuman, "alone.damaged"},
		{"a person without a name confirms nothing", like("a person confirms that the survivor's peer is off", anonymous), state.EtcdAskHuman, "alone.unproved"},
		{"a confirmation of no boot counts for nothing", like("a person confirms that the survivor's peer is off", bootless), state.EtcdAskHuman, "alone.unproved"},
		{"a word that nobody gave confirms nothing", like("a person confirms that the survivor's peer is off", nobodySays), state.EtcdAskHuman, "alone.unproved"},
	}
}
