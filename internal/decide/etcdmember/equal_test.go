package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestEquals(t *testing.T) { prove(t, equalsSentences()) }

// equalsSentences are about two hosts of which neither went on alone.
func equalsSentences() []sentence {
	return []sentence{
		{"the hand-over: who leads marks itself where the peer is pair already", like("a healthy pair is left alone", own(state.EtcdVoter)), state.EtcdMark, "equal.mark"},
		{"a pairing is taken although the own copy could not be examined, since etcd runs from it", like("the newcomer becomes pair when told so", copyUnknown), state.EtcdWriteRecord, "equal.pair"},
		{"a pair that leads marks the peer that is a voter again", like("a healthy pair is left alone", peer(state.EtcdVoter)), state.EtcdMark, "equal.mark"},
		{"a copy that does not list itself is not yielded to a peer without a record", like("2 a copy that does not list itself is not started", peer(state.EtcdNone)), state.EtcdAskHuman, "equal.unusable"},
		{"a newcomer that its own membership has as a voter was promoted, whatever its peer gave up", like("a yield is proof enough", own(state.EtcdLearner)), state.EtcdWriteRecord, "equal.promoted"},
		{"a voter goes on when its peer yields", like("a yield is proof enough", own(state.EtcdVoter)), state.EtcdWriteRecord, "equal.take-over"},
		{"nothing is yielded to a peer whose copy was not examined", like("2 a copy that does not list itself is not started", peerCopyUnknown), state.EtcdWait, "equal.unusable-wait"},
		{"a learner that runs asks nobody about a blank peer", like("a learner whose own copy does not list it catches up", blank), state.EtcdIdle, "equal.idle"},
		{"a voter waits for the first record of a peer that holds a copy", like("2 a voter starts plainly", peer(state.EtcdNone)), state.EtcdWait, "equal.adopting"},
		{"a learner is neither marked nor marks", like("the hand-over: both are voters, marked: pair", members(alpha, betaInSync)), state.EtcdIdle, "equal.idle"},
		{"a host without a record beside a pair adopts nothing", like("a healthy pair is left alone", own(state.EtcdNone)), state.EtcdAskHuman, "equal.no-record"},
		{"who gave its copy up waits for its peer", like("a healthy pair is left alone", yields(0xa)), state.EtcdWait, "equal.yielded"},
		{"a pair that is the only voter and leads is sole", like("a healthy pair is left alone", members(alpha)), state.EtcdWriteRecord, "equal.sole"},
		{"the hand-over: a first record is written beside a peer that has one", like("one key is written, by the survivor if it leads", own(state.EtcdNone)), state.EtcdWriteRecord, "equal.adopt"},
		{"a pair whose peer was marked anew pairs with it again", like("acknowledged: the survivor writes pair", own(state.EtcdPair)), state.EtcdWriteRecord, "equal.pair-again"},
		{"a voter does not pair first with a peer that is pair", like("and not by a pairing of before", members(marks(alpha, 4), marks(beta, 2))), state.EtcdIdle, "equal.idle"},
		{"the hand-over: a copy of another member is not adopted", like("the hand-over: a first record is written", member(0xb)), state.EtcdAskHuman, "equal.no-record"},
		{"who departs stays beside a learner that holds nothing only as what it is", like("who meant to leave goes on when its peer yields", peerEmpty), state.EtcdIdle, "equal.idle"},
		{"a pair that heard needs no answer from a peer whose disk was replaced", like("the peer's disk was replaced: who heard it in this boot goes on", unread), state.EtcdWriteRecord, "equal.take-over"},
		{"a learner whose etcd is down is not fenced", like("for a bounded time, then it is fenced", peer(state.EtcdLearner)), state.EtcdIdle, "equal.idle"},
		{"a blank peer whose etcd runs is not renounced", like("a healthy pair is left alone", blank), state.EtcdIdle, "equal.idle"},
		{"a person's word about a peer in contact proves nothing", like("a healthy pair is left alone", confirms), state.EtcdIdle, "equal.idle"},
		{"a pairing makes no pair of a pair", like("a healthy pair is left alone", peerPaired), state.EtcdIdle, "equal.idle"},
		{"a learner that holds nothing has nothing to yield", like("then it is backed up and emptied", peer(state.EtcdPair)), state.EtcdWait, "equal.unusable-wait"},
		{"a learner that lost its copy beside a pair does not yield as a member", like("a learner whose copy is lost gives the id up", peer(state.EtcdPair)), state.EtcdWait, "equal.unusable-wait"},
		{"both gave up their data directories: a person", like("a disowned learner is dropped", gaveUp), state.EtcdAskHuman, "equal.both-yielded"},
		{"a voter that runs does not wait for a peer that lost its record", like("or by the newcomer if it leads", peer(state.EtcdNone)), state.EtcdMark, "equal.mark"},
		{"nobody marks itself beside a peer whose etcd is down", like("or by the newcomer if it leads", peerEmpty), state.EtcdIdle, "equal.idle"},
		{"a pairing of a peer that departs makes no pair", like("the newcomer becomes pair when told so", peer(state.EtcdDeparting)), state.EtcdIdle, "equal.idle"},
		{"a voter whose copy is damaged yields it to a pair", like("the newcomer becomes pair when told so", damaged), state.EtcdWriteRecord, "equal.lost-copy-yield"},
		{"a learner does not become pair by a pairing", like("the newcomer becomes pair when told so", members(beta, alphaLearner)), state.EtcdIdle, "equal.idle"},
		{"a learner does not become sole because its peer departs", like("who stays writes sole when it has seen that", members(beta, alphaLearner)), state.EtcdIdle, "equal.idle"},
		{"who departed and whose copy is damaged yields it to a pair", like("did not leave after all: voter until a new marker", damaged), state.EtcdWriteRecord, "equal.lost-copy-yield"},
		{"a learner does not stay as a voter", like("did not leave after all: voter until a new marker", members(beta, alphaLearner)), state.EtcdIdle, "equal.idle"},
		{"a peer that has not examined its copy is waited for", like("2 both pair: both start plainly", peerCopyUnknown), state.EtcdWait, "equal.unknown"},
		{"a voter does not wait for the first record of a peer that holds nothing", like("2 a voter starts plainly", blank), state.EtcdAskHuman, "equal.peer-lost"},
		{"the hand-over: nothing is adopted beside a peer that holds nothing", like("3 no data there: a person", own(state.EtcdNone)), state.EtcdAskHuman, "equal.no-record"},
		{"a copy of no member is of no use", like("3 no data there: a person", dataMember(0x0)), state.EtcdAskHuman, "equal.unusable"},
		{"the hand-over: a copy that does not list its own member is not adopted", like("the hand-over: a first record is written", dataMember(0x0)), state.EtcdAskHuman, "equal.no-record"},
		{"a learner that leads by mistake does not mark", like("the hand-over: both are voters, marked: pair", members(beta, alphaLearner)), state.EtcdIdle, "equal.idle"},
		{"a peer that departs says so now: a boot without a name hears it", like("the peer yielded: the take-over is recorded", bootless), state.EtcdWriteRecord, "equal.take-over"},
		{"who does not lead is not sole because it is alone in its membership", like("the peer yielded: the take-over is recorded", members(alpha)), state.EtcdWriteRecord, "equal.peer-departs"},
		{"a stand-in never votes among three, though the peer's disk was replaced", like("the peer's disk was replaced: who heard it in this boot goes on", members(alpha, beta, gamma)), state.EtcdIdle, "equal.idle"},
		{"a pair that has not heard before hears a learner", like("who has not heard it asks", peer(state.EtcdLearner)), state.EtcdWriteRecord, "equal.take-over"},
		{"a minute without a leader is not over at its end", like("the peer's etcd is down: its restart is awaited", leaderless(FenceAfter)), state.EtcdIdle, "equal.idle"},
		{"who departed fences nobody", like("for a bounded time, then it is fenced", own(state.EtcdDeparting)), state.EtcdIdle, "equal.idle"},
		{"a voter whose etcd does not come back is fenced as a pair is", like("for a bounded time, then it is fenced", peer(state.EtcdVoter)), state.EtcdAskFence, "equal.fence"},
		{"a peer that stops is not fenced", like("for a bounded time, then it is fenced", peerLeaves), state.EtcdIdle, "equal.idle"},
	}
}
