package etcdmember

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAFullDisk(t *testing.T) { prove(t, fullDiskSentences()) }

// crowded is a host whose etcd ends as often as it is started, because its disk is
// full.
func crowded(s *state.EtcdSnapshot) {
	stopped(s)
	s.Data.Value.NoSpace = true
}

// unstarted is a host whose podman starts no etcd.
func unstarted(s *state.EtcdSnapshot) {
	stopped(s)
	s.Data.Value.NoStart, s.Data.Value.Reason = true, "the image is not on this host"
}

func peerUnstarted(s *state.EtcdSnapshot) { s.Statement.Value.Data.Value.NoStart = true }

func peerCrowded(s *state.EtcdSnapshot) { s.Statement.Value.Data.Value.NoSpace = true }

// fullDiskSentences are about a data directory that is whole and from which etcd
// cannot run here. A pair has no quorum meanwhile.
func fullDiskSentences() []sentence {
	const (
		write = state.EtcdWriteRecord
		start = state.EtcdStart
	)
	voter := host(own(state.EtcdVoter), peer(state.EtcdSole), follows, crowded)
	return []sentence{
		// Neither went on alone
		{"a pair whose disk is full says first that it leaves", host(crowded), write, "equal.no-space-depart"},
		{"so does a voter", host(own(state.EtcdVoter), crowded), write, "equal.no-space-depart"},
		{"once its peer has read that, it yields", host(own(state.EtcdDeparting), crowded), write, "equal.no-space-yield"},
		{"until then it waits, and starts nothing that would take it back", host(own(state.EtcdDeparting), unread, crowded), state.EtcdWait, "equal.no-space-await"},
		{"where the peer's disk is full too, it tries on", host(own(state.EtcdDeparting), unread, crowded, peerCrowded), start, "equal.start"},
		{"who is told to stop yields nothing to a peer whose disk is full", host(own(state.EtcdDeparting), leaves, stopped, peerCrowded), state.EtcdIdle, "leave.stopped"},
		{"two that leave at once: none yields, both try on", host(own(state.EtcdDeparting), peer(state.EtcdDeparting), crowded), start, "equal.start"},
		{"nor where the peer cannot carry the cluster any more", host(own(state.EtcdDeparting), crowded, peerStopped), start, "equal.start"},
		{"a pair whose peer leaves for its full disk waits for the yield", host(peer(state.EtcdDeparting), peerCrowded), state.EtcdIdle, "equal.idle"},
		{"and goes on where there is room again", host(peer(state.EtcdDeparting)), write, "equal.peer-departs"},
		{"an etcd that runs is not given up, whatever was found before", host(func(s *state.EtcdSnapshot) { s.Data.Value.NoSpace = true }), state.EtcdIdle, "equal.idle"},
		{"two full disks: both try on, since neither could go on", host(crowded, peerCrowded), start, "equal.start"},
		{"the peer's full disk alone changes nothing here", host(stopped, peerCrowded), start, "equal.start"},
		{"a learner holds nobody up: it tries on", host(own(state.EtcdLearner), crowded), start, "equal.start"},
		{"nothing is yielded to a peer that may lack writes", host(crowded, peer(state.EtcdVoter)), start, "equal.start"},
		{"nor before the peer has read this host's record", host(crowded, unread), start, "equal.start"},
		{"nor to a peer that gave its own up", host(crowded, peer(state.EtcdDeparting), peerYields(0xb)), start, "equal.start"},
		{"nor to one whose etcd is down", host(crowded, peerStopped), start, "equal.start"},
		{"or cannot work either", host(crowded, peerSick), start, "equal.start"},
		{"data that could not be examined are not given up", host(crowded, copyUnknown), state.EtcdWait, "unknown.data"},

		// The peer is sole
		{"a voter gives its member up, for the sole host needs its vote", voter, write, "follow.no-space"},
		{"one that runs does not", host(own(state.EtcdVoter), peer(state.EtcdSole), follows, func(s *state.EtcdSnapshot) { s.Data.Value.NoSpace = true }), state.EtcdWait, "follow.catch-up"},
		{"a learner has no vote: it tries on", host(own(state.EtcdLearner), peer(state.EtcdSole), follows, crowded), start, "follow.start"},
		{"a pair becomes a voter first", host(peer(state.EtcdSole), follows, crowded), write, "follow.demote"},
		{"one that the sole host does not list is given up as ever", host(own(state.EtcdVoter), peer(state.EtcdSole), peerHeads, peerMembers(beta), crowded), write, "follow.give-up"},

		// Nobody else serves
		{"a sole host tries on: nobody else has its writes", host(own(state.EtcdSole), peer(state.EtcdLearner), crowded), start, "lead.start"},

		// podman starts no etcd
		{"a pair whose podman fails leaves for a peer that carries the cluster", host(unstarted), write, "equal.no-space-depart"},
		{"and yields in a second step", host(own(state.EtcdDeparting), unstarted), write, "equal.no-space-yield"},
		{"an image that both hosts lack: both try on", host(unstarted, peerUnstarted), start, "equal.start"},
		{"nor is anything yielded to a peer whose disk is full", host(unstarted, peerCrowded), start, "equal.start"},
		{"a pair whose peer leaves because its podman fails waits for the yield", host(peer(state.EtcdDeparting), peerUnstarted), state.EtcdIdle, "equal.idle"},
		{"a voter gives its member up to a sole host all the same", host(own(state.EtcdVoter), peer(state.EtcdSole), follows, unstarted), write, "follow.no-space"},
		{"a learner is not emptied for it", host(own(state.EtcdLearner), peer(state.EtcdSole), follows, unstarted), start, "follow.start"},
		{"a sole host is told of no restore", host(own(state.EtcdSole), peer(state.EtcdLearner), unstarted), start, "lead.start"},
		{"nor is one whose peer is gone", host(own(state.EtcdSole), gonePeer, fenced, unstarted), start, "gone.sole-restarts"},
		{"nor one that takes over", host(own(state.EtcdTakingOver), gonePeer, fenced, unstarted), start, "take-over.start"},
	}
}

func TestWhatKeepsEtcdFromStartingIsToldAmongTheEvidence(t *testing.T) {
	s := host(unstarted)
	if v := Decide(s); !slices.Contains(v.Evidence, "own data directory: whole, and nothing starts etcd: the image is not on this host") {
		t.Errorf("%q", v.Evidence)
	}
	if st := Statement(s); !st.Data.Value.NoStart || st.Data.Value.Reason != "" {
		t.Errorf("%+v", st.Data.Value)
	}
	s = host(peerUnstarted)
	if v := Decide(s); !slices.ContainsFunc(v.Evidence, func(e string) bool { return strings.Contains(e, "data directory whole, and nothing starts etcd, etcd") }) {
		t.Errorf("%q", v.Evidence)
	}
}

func TestAFullDiskIsToldAmongTheEvidence(t *testing.T) {
	v := Decide(host(crowded))
	if !slices.Contains(v.Evidence, "own data directory: whole, and its disk full") {
		t.Errorf("%q", v.Evidence)
	}
}

func TestTheReasonOfADamageIsToldHereAndNotToThePeer(t *testing.T) {
	s := host(stopped)
	s.Data.Value.Copy, s.Data.Value.Reason = state.CopyDamaged, "the log is gone"
	if v := Decide(s); !slices.Contains(v.Evidence, "own data directory: damaged: the log is gone") {
		t.Errorf("%q", v.Evidence)
	}
	if st := Statement(s); st.Data.Value.Copy != state.CopyDamaged || st.Data.Value.Reason != "" {
		t.Errorf("%+v", st.Data.Value)
	}
}
