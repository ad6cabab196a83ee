package etcdmember

import (
	"cmp"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Strangers returns the members of the local etcd that belong to neither host, the
// most dangerous first. A person or a program added them. A voter among them
// counts for the quorum, so the next loss stops the cluster, and no rule starts
// a stand-in among three voters. A learner keeps etcd from taking another one.
// While it is unknown which member is the peer's, one other member counts as the peer's.
func Strangers(s state.EtcdSnapshot) []state.EtcdMember {
	v := look(&s)
	if !v.known || !v.running || !v.selfListed() {
		return nil
	}
	peer := v.own.Paired.Member
	if v.said {
		peer = v.peer.Record.Member
	}
	var others []state.EtcdMember
	found := false
	for _, m := range v.members {
		switch {
		case m.ID == v.own.Member, v.comes(m):
		case m.ID == peer, s.Peer != "" && m.Name == s.Peer: // etcd's names are those of the hosts
			found = true
		default:
			others = append(others, m)
		}
	}
	slices.SortStableFunc(others, func(a, b state.EtcdMember) int { return cmp.Compare(danger(b), danger(a)) })
	if !found && len(others) > 0 {
		others = others[:len(others)-1]
	}
	return slices.Clip(others)
}

// Third returns the member that a plan brings, or brought, as the third one, false without one.
func Third(s state.EtcdSnapshot) (state.EtcdMember, bool) {
	v := look(&s)
	for _, m := range v.members {
		if v.membersKnown && v.comes(m) {
			return m, true
		}
	}
	return state.EtcdMember{}, false
}

// danger orders strangers. The most dangerous is a voter that never started: it raises the
// quorum, and never votes.
func danger(m state.EtcdMember) int {
	switch {
	case m.Learner:
		return 0
	case m.Name != "":
		return 1
	}
	return 2
}

// Etcdctl returns a command line with which a person asks etcd of the control plane that the
// person is on. Without an address and certificates etcd answers nobody.
func Etcdctl(arguments string) string {
	const pki = state.EtcdPKIDir + "/"
	return "etcdctl --endpoints https://localhost:2379 --cacert " + pki + "ca.crt --cert " + pki + "healthcheck-client.crt --key " + pki +
		"healthcheck-client.key " + arguments
}

// RemoveCommand returns the command with which a person removes a member of etcd.
func RemoveCommand(id state.MemberID) string { return Etcdctl("member remove " + id.String()) }

// ListCommand returns the command that shows the members as this control plane's etcd knows
// them. It needs no leader.
func ListCommand() string { return Etcdctl("member list --consistency=s -w table") }

// StatusCommand returns the command that asks each member whether it serves.
func StatusCommand() string { return Etcdctl("endpoint status --cluster -w table") }
