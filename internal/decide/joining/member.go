package joining

import (
	"cmp"
	"errors"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Member is a member of etcd, with the URLs at which the others look for it.
type Member struct {
	state.EtcdMember
	At []string
}

// ran reports whether a member has started once, or votes: kubeadm lets none vote before it has started.
func (m Member) ran() bool { return m.Name != "" || !m.Learner }

// errMembers is no Refusal: the host asks again.
var errMembers = errors.New("the members of etcd are not known")

// forgets returns why the host gets no token, because kubeadm would start etcd from nothing under the
// id of a member that has run. kubeadm adds no member where one has the host's peer URL, and asks nobody
// whether that one's data are here. Such a voter has forgotten what it acknowledged. Only a person knows
// whether the machine that has the data comes back, so the member is not removed here.
func (a Ask) forgets(members state.Fact[[]Member]) error {
	if a.NewEtcd == "" {
		return nil
	}
	if !members.Known {
		return errMembers
	}
	i := slices.IndexFunc(members.Value, func(m Member) bool {
		return m.ran() && (m.Name == a.Host || slices.Contains(m.At, a.NewEtcd))
	})
	if i < 0 {
		return nil
	}
	m := members.Value[i]
	return refuse("etcd has a member of this host's name or address that has run already, %s (%s), and this host has no data of it: it would vote without what it has acknowledged. "+
		"If the machine with its data runs, or can come back, switch this one off instead. Else see that it is off, and while the other control planes serve (holdfast status) take that member out on one of them: sudo %s. "+
		"This host goes on by itself; the other machine may come back only with an empty disk (docs/runbook/install.md#etcd-has-a-member-of-this-hosts-name-or-address-that-has-run-already)", cmp.Or(m.Name, "without a name"), m.ID, etcdmember.RemoveCommand(m.ID))
}
