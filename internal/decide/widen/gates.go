package widen

import (
	"net/netip"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Commands that the words of gates name.
const (
	explainEtcd = "sudo holdfast explain etcd"
	statusShow  = "holdfast status"
	apply       = "sudo holdfast topology apply --install-config FILE --new-name NAME --address ADDRESS"
)

var askEtcd = "sudo " + etcdmember.StatusCommand()

var (
	open = plans.Open
	shut = plans.Shut
)

// Gates returns every gate, for a wish, or for a plan that has changed nothing yet.
func Gates(f Facts, w Wish) []replace.Gate {
	return []replace.Gate{
		f.gateTwo(), f.gatePair(), f.gateEtcd(), f.gateMembers(), plans.Backup(f.Host, f.Backup, f.Now, w.NoBackup), f.gateWork(), plans.Room(f.Room), plans.Release(f.Ships, "the new host is installed"), f.gateNew(w), f.gateTarget(),
	}
}

func (f Facts) gateTwo() replace.Gate {
	if f.ControlPlanes != 2 {
		return shut("two", statusShow, "this site has %d control planes: a third one comes to two", f.ControlPlanes)
	}
	return open("two")
}

// gatePair is open if either host may be lost now.
func (f Facts) gatePair() replace.Gate {
	switch {
	case f.Peer == "" || !yes(f.Contact):
		return shut("pair", explainEtcd, "the other control plane is not in contact, or that is unknown")
	case !state.Is(f.Record, state.EtcdPair) || !state.Is(f.PeerRecord, state.EtcdPair):
		return shut("pair", explainEtcd, "the records of both hosts must say pair: wait until either host may be lost")
	}
	return open("pair")
}

func (f Facts) gateEtcd() replace.Gate {
	switch {
	case !yes(f.Serves):
		return shut("etcd", explainEtcd, "etcd on this host does not answer, or knows no leader")
	case !no(f.StandIn):
		return shut("etcd", explainEtcd, "a stand-in votes, or may vote")
	}
	return open("etcd")
}

func (f Facts) gateMembers() replace.Gate {
	if !state.Is(f.Voters, 2) || !state.Is(f.Learner, 0) {
		return shut("members", "sudo "+etcdmember.ListCommand(), "etcd must have the two voters and no learner, or its members are unknown")
	}
	return open("members")
}

func (f Facts) gateWork() replace.Gate {
	others := f.Lock.Value.ID != "" && (f.Plan == nil || f.Plan.ID != f.Lock.Value.ID)
	return plans.Work(plans.Lock{Known: f.Lock.Known, Others: others, InForce: f.InForce}, f.Moves, f.Work)
}

func (f Facts) gateNew(w Wish) replace.Gate {
	_, err := netip.ParseAddr(w.New.Address)
	switch {
	case w.New.Name == "" || w.New.Name == f.Host || w.New.Name == f.Peer:
		return shut("new", apply, "the third control plane needs a name of its own, not %q", w.New.Name)
	case !no(f.Node):
		// A plan that is taken back deletes the Node of its new host.
		return shut("new", "kubectl get node "+w.New.Name, "%s is a node of this cluster already, or that is unknown: give the new host another name", w.New.Name)
	case err != nil:
		return shut("new", apply, "the address of %s is missing, or is none: %q", w.New.Name, w.New.Address)
	case w.New.BMC != "":
		return shut("new", apply, "three control planes do not fence each other: take controlPlane.fencing out of the file")
	}
	return open("new")
}

// gateTarget keeps a plan from beginning that could not end.
func (f Facts) gateTarget() replace.Gate {
	if !yes(f.Target) {
		return shut("target", apply, "the site of three control planes is not written down on this host: type the command again")
	}
	return open("target")
}
