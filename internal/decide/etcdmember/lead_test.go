package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestLeading(t *testing.T) { prove(t, leadingSentences()) }

// leadingSentences are about a host that went on alone, until its peer is back.
func leadingSentences() []sentence {
	return []sentence{
		{"a stand-in never votes where there are three voters, whatever was given up", like("it proves nothing about another id", members(alpha, beta, gamma)), state.EtcdWait, "lead.taking-over"},
		{"a listed voter that holds nothing any more is renounced, and that is the proof", like("sole, the newcomer's etcd is down: taking-over is recorded", peerEmpty), state.EtcdWriteRecord, "lead.voter-lost"},
		{"a removal that is committed ends a take-over in contact too", like("contact ends a fenced proof", members(alpha)), state.EtcdWriteRecord, "lead.sole"},
		{"no learner is added for a peer that departs", like("the survivor adds a learner once the copy is empty", peer(state.EtcdDeparting)), state.EtcdWait, "lead.wait"},
		{"a newcomer whose etcd is down is left alone while this host leads", like("sole, the newcomer's etcd is down: taking-over is recorded", led(0xa)), state.EtcdWait, "lead.wait"},
		{"a stand-in that no proof allows is stopped in contact", like("contact ends a fenced proof", standIn(0xa)), state.EtcdStopStandIn, "lead.end-stand-in"},
		{"a survivor ends a stand-in that is left before it adds anybody", like("the survivor adds a learner once the copy is empty", standIn(0xa)), state.EtcdStopStandIn, "lead.stand-in-ends"},
		{"a survivor without a leader adds nobody, and a learner is no voter to be lost", like("the survivor adds a learner once the copy is empty", leaderless(RestartGrace+1)), state.EtcdWait, "lead.wait"},
		{"a survivor without a leader marks nobody, and loses no voter whose etcd runs", like("one key is written, by the survivor if it leads", leaderless(RestartGrace+1)), state.EtcdWait, "lead.wait"},
		{"a survivor that does not lead removes nobody", like("and removes the leaver", member(0xb)), state.EtcdWait, "lead.wait"},
		{"a learner never becomes pair, and never takes over", like("sole, the newcomer's etcd is down: taking-over is recorded", members(alphaLearner, marks(beta, 2))), state.EtcdWait, "lead.wait"},
		{"a stand-in that votes for the listed member is not started twice", like("waiting is proof", standIn(0xb)), state.EtcdWait, "lead.taking-over"},
		{"a survivor whose own removal was committed asks a person, since no etcd starts as a removed member", like("contact ends a fenced proof", stopped, members(beta)), state.EtcdAskHuman, "lead.removed"},
		{"a survivor whose copy is damaged asks a person", like("contact ends a fenced proof", damaged), state.EtcdAskHuman, "lead.no-copy"},
		{"a peer that holds another member than the listed one is renounced: a stand-in may vote", like("contact ends a fenced proof", peerEmpty), state.EtcdStartStandIn, "lead.stand-in"},
		{"a learner is not added for a peer whose record still holds a member", like("the survivor adds a learner once the copy is empty", peerMember(0xa)), state.EtcdWait, "lead.wait"},
		{"a learner is not added for a peer whose copy is not emptied yet", like("the survivor adds a learner once the copy is empty", peerCopyDamaged), state.EtcdWait, "lead.wait"},
		{"a learner is not added for a peer whose etcd runs", like("the survivor adds a learner once the copy is empty", peerRunning), state.EtcdWait, "lead.wait"},
		{"a survivor without a leader drops nobody", like("a disowned learner is dropped", led(0x0)), state.EtcdWait, "lead.wait"},
		{"a learner that the peer does not hold is not promoted", like("a learner is promoted when in sync", peer(state.EtcdNone)), state.EtcdWait, "lead.wait"},
		{"a learner is not promoted by who does not lead", like("a learner is promoted when in sync", led(0x0)), state.EtcdWait, "lead.wait"},
		{"a learner whose etcd is down is not promoted", like("a learner is promoted when in sync", peerHalted), state.EtcdWait, "lead.wait"},
		{"a voter that the peer does not hold is not marked", like("one key is written, by the survivor if it leads", peerMember(0x0)), state.EtcdWait, "lead.wait"},
		{"a marked learner makes no pair", like("one key is written, by the survivor if it leads", members(alpha, marks(betaLearner, 2))), state.EtcdWait, "lead.wait"},
		{"a learner that leads by mistake marks nobody", like("one key is written, by the survivor if it leads", members(beta, alphaLearner)), state.EtcdWait, "lead.wait"},
		{"a voter that the peer does not hold makes no pair", like("acknowledged: the survivor writes pair", peerMember(0x0)), state.EtcdWait, "lead.wait"},
		{"a pair was not forced", like("acknowledged: the survivor writes pair", iForced), state.EtcdWriteRecord, "lead.pair"},
		{"a pair keeps no proof of the take-over before", like("acknowledged: the survivor writes pair", proven), state.EtcdWriteRecord, "lead.pair"},
		{"a learner does not take over from a peer that yields", like("a yield is proof enough", members(beta, alphaLearner)), state.EtcdWait, "lead.wait"},
		{"a peer whose disk was replaced is no proof before it answered who takes over", like("it proves nothing about another id", blank), state.EtcdWait, "lead.unproved"},
		{"a removal is not the end of a take-over before this host leads", like("it proves nothing about another id", members(alpha)), state.EtcdWait, "lead.taking-over"},
		{"ten seconds are time enough to restart, and not over at their end", like("the peer's etcd is down: its restart is awaited", own(state.EtcdSole)), state.EtcdWait, "lead.wait"},
	}
}
