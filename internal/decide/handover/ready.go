package handover

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Ready returns what keeps a host's etcd from being taken from kubelet, empty for
// nothing: each host must be able to go on without the other while the other's etcd
// restarts.
func Ready(r state.EtcdReport) (missing string) {
	s := r.Snapshot
	switch {
	case r.Wish != state.EtcdStarted:
		return "Pacemaker has not asked for etcd on this host yet"
	case !s.Record.Known || s.Record.Value.State != state.EtcdPair:
		return "the record of this host says " + recordState(s.Record) + Verdict(r)
	case !s.Statement.Known:
		return "no statement was received from " + s.Peer + Verdict(r)
	case s.Statement.Value.Record.State != state.EtcdPair:
		return fmt.Sprintf("the record of %s says %s", s.Peer, s.Statement.Value.Record.State)
	}
	return Voting(r)
}

// Superseded reports whether the cluster goes on without this host's etcd: the peer
// states in this membership that it goes on alone and leads, and this host neither
// votes nor claims the same. Then its data directory is no longer needed, and it
// can come back only as a new member. Only an etcd of kubelet is in the way of that:
// it starts again and again, so nobody can promise that nothing holds the data.
func Superseded(r state.EtcdReport) bool {
	s := r.Snapshot
	own, peer := s.Record.Value, s.Statement.Value
	return r.Wish == state.EtcdStarted &&
		s.Record.Known && own.State != state.EtcdSole && own.State != state.EtcdTakingOver &&
		state.Is(s.Pacemaker.Contact, true) && s.Pacemaker.Ring != 0 &&
		s.Statement.Known && peer.Ring == s.Pacemaker.Ring &&
		peer.Record.State == state.EtcdSole && state.Is(peer.Running, true) && peer.Leads &&
		Voting(r) != ""
}

// Voting returns what the local etcd lacks to be one of two voters with a leader.
func Voting(r state.EtcdReport) (missing string) {
	local := r.Snapshot.Local
	switch {
	case !state.Is(local.Running, true):
		return "etcd on this host is not running" + Verdict(r)
	case !local.Leader.Known || local.Leader.Value == 0:
		return "etcd on this host knows no leader" + Verdict(r)
	case !local.Members.Known:
		return "etcd on this host does not report its members" + Verdict(r)
	}
	voters := slices.DeleteFunc(slices.Clone(local.Members.Value), func(m state.EtcdMember) bool { return m.Learner })
	if len(voters) != twoNodes {
		return fmt.Sprintf("etcd has %d of two voters%s", len(voters), Verdict(r))
	}
	return ""
}

// Verdict returns the etcd keeper's reason and problem, as the end of a sentence.
func Verdict(r state.EtcdReport) string {
	words := ": " + r.Verdict.Reason
	if r.Problem != "" {
		words += " (" + r.Problem + ")"
	}
	return words
}

func recordState(r state.Fact[state.EtcdRecord]) string {
	if !r.Known {
		return "nothing readable"
	}
	return string(r.Value.State)
}
