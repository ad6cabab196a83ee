package narrow

import (
	"net/netip"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Commands that the words of gates name.
const (
	explainEtcd = "sudo holdfast explain etcd"
	statusShow  = "holdfast status"
	crmMon      = "sudo crm_mon -1"
	apply       = "sudo holdfast topology apply --install-config FILE"
)

var askEtcd = "sudo " + etcdmember.StatusCommand()

var (
	open = plans.Open
	shut = plans.Shut
)

// Gates returns every gate, for a wish, or for a plan that has changed nothing yet.
func Gates(f Facts, w Wish) []replace.Gate {
	return []replace.Gate{
		f.gateThree(), f.gateOld(w), f.gateHands(), f.gateEtcd(), f.gateMembers(w), f.gateServe(w), plans.Backup(f.Host, f.Backup, f.Now, w.Accepts.NoBackup), f.gateWork(), plans.Room(f.Room), plans.Release(f.Ships, "it gets the parts of two"),
		f.gateVolumes(w), f.gateFencing(), f.gateTarget(),
	}
}

func (f Facts) gateThree() replace.Gate {
	if f.ControlPlanes != three {
		return shut("three", statusShow, "this site has %d control planes: one of three goes", f.ControlPlanes)
	}
	return open("three")
}

func (f Facts) gateOld(w Wish) replace.Gate {
	_, err := netip.ParseAddr(w.Old.Address)
	switch {
	case w.Old.Name == f.Host:
		return shut("old", apply, "%s carries the plan and cannot be the host that goes: type the command on another one", f.Host)
	case w.Old.Name == "" || f.Peer == "" || w.Old.Name == f.Peer:
		return shut("old", statusShow, "it is unknown which host goes (%q) and which one stays beside %s (%q)", w.Old.Name, f.Host, f.Peer)
	case err != nil || w.Third == 0:
		return shut("old", "etcdctl member list", "the address or the member of %s is not known", w.Old.Name)
	case !yes(f.Node):
		return shut("old", "kubectl get node "+w.Old.Name, "%s is no node of this cluster, or that is unknown", w.Old.Name)
	}
	return open("old")
}

// gateHands is open if this host is as kubeadm made it: kubelet has etcd, and nothing of two is here.
func (f Facts) gateHands() replace.Gate {
	switch {
	case !yes(f.Kubelets):
		return shut("hands", explainEtcd, "kubelet does not run etcd on this host, or that is unknown")
	case !no(f.Runs) || !no(f.Paired) || !state.Is(f.Record, state.EtcdNone):
		return shut("hands", explainEtcd, "this host has files of one of two, or that is unknown: take an earlier plan back first")
	}
	return open("hands")
}

func (f Facts) gateEtcd() replace.Gate {
	if !yes(f.Serves) {
		return shut("etcd", explainEtcd, "etcd on this host does not answer, or knows no leader")
	}
	return open("etcd")
}

func (f Facts) gateMembers(w Wish) replace.Gate {
	if !state.Is(f.Voters, three) || !state.Is(f.Learner, 0) || !yes(f.Listed) {
		return shut("members", "etcdctl member list", "etcd must have three voters, %s among them, and no learner, or its members are unknown", w.Old.Name)
	}
	return open("members")
}

// gateServe is open if any one of the three may be lost now. One that is lost already is replaced first:
// with it gone the set-up of two would stop writes.
func (f Facts) gateServe(w Wish) replace.Gate {
	switch {
	case !yes(f.PeerHere):
		return shut("serve", statusShow, "etcd of %s does not serve now, or that is unknown", f.Peer)
	case !yes(f.ThirdHere):
		return shut("serve", "holdfast host replace "+w.Old.Name, "etcd of %s does not serve now, or that is unknown: a host that is lost is replaced, or brought back, before one goes", w.Old.Name)
	}
	return open("serve")
}

func (f Facts) gateWork() replace.Gate {
	others := f.Lock.Value.ID != "" && (f.Plan == nil || f.Plan.ID != f.Lock.Value.ID)
	return plans.Work(plans.Lock{Known: f.Lock.Known, Others: others, InForce: f.InForce}, f.Moves, f.Work)
}

func (f Facts) gateVolumes(w Wish) replace.Gate {
	switch {
	case !f.Volumes.Known:
		return shut("volumes", statusShow, "it is unknown which volumes lie on %s", w.Old.Name)
	case len(f.Volumes.Value) > 0:
		return shut("volumes", "kubectl get pv", "the data of these volumes lie on %s alone: %s: move them, or delete the volumes", w.Old.Name, strings.Join(f.Volumes.Value, ", "))
	}
	return open("volumes")
}

// gateFencing is open if this host can switch both off: two that cannot fence each other serve less
// than three do. The other one tests them, too, before anything changes.
func (f Facts) gateFencing() replace.Gate {
	if !yes(f.Tested) {
		return shut("fencing", "holdfast fencing verify", "this host has not tested the BMCs of %s and %s, or one of them does not answer, refuses its account, or is part of another machine", f.Host, f.Peer)
	}
	return open("fencing")
}

// gateTarget keeps a plan from beginning that could not end.
func (f Facts) gateTarget() replace.Gate {
	if !yes(f.Target) {
		return shut("target", apply, "the site of two control planes is not written down on this host, with the accounts of both BMCs: type the command again")
	}
	return open("target")
}
