package replace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// world returns the World of this host.
func (h *here) world() World {
	return World{Look: h.look, JoinKey: h.joinKey, Do: map[replace.Act]func(context.Context, Job) error{ //nolint:exhaustive // the others are no acts of this place
		replace.CopyPlan: h.copyPlan, replace.DropLock: h.dropLock, replace.SwitchOff: h.switchOff, replace.ChangeKey: h.changeKey, replace.PutToken: h.putToken,
		replace.ChangeJoin: h.changeJoin, replace.PutGrave: h.putGrave, replace.GiveName: h.giveName, replace.DropPods: h.dropPods, replace.DropNode: h.dropNode, replace.DropSecret: h.dropSecret,
		replace.LeaveRing: h.leaveRing, replace.Forget: h.forget, replace.ForgetAgain: h.forgetAgain, replace.Retire: h.retire, replace.DropRetire: h.dropRetire, replace.DropMember: h.dropMember,
		replace.PutDevice: h.putDevice, replace.SetFencing: h.setFencing, replace.JoinRing: h.joinRing,
		replace.NameSite: h.nameSite, replace.DropDevice: h.dropDevice,
		replace.PutManifest: h.putManifest, replace.FirstRing: h.firstRing, replace.SetAlone: h.setAlone, replace.TakeEtcd: h.takeEtcd, replace.Finish: h.finish,
		replace.PutPod: h.putPod, replace.KubeletBoot: h.kubeletBoot, replace.StopEtcd: h.stopEtcd, replace.GivePod: h.givePod,
		replace.EndRing: h.endRing, replace.EndPair: h.endPair, replace.Dress: h.dress,
	}}
}

// in opens the cluster and calls do with it.
func (h *here) in(do func(API) error) error { return carry.In(h.open, do) }

// proven returns an error unless the old host is off in this moment. An act asks it right before
// it removes something of that host, although the look before it has asked the same.
func (h *here) proven(ctx context.Context, job Job) error {
	f := replace.Facts{Plan: job.Plan, Host: h.Host}
	h.keeper(ctx, &f)
	h.old(ctx, &f, job)
	f.Now = h.now()
	if !replace.Gone(f) {
		return fmt.Errorf("nothing proves in this moment that %s is off", job.Plan.Old.Name)
	}
	return nil
}

// copyPlan takes the lock, or writes the newer plan into it. If two hosts replace each other, only one gets
// it.
func (h *here) copyPlan(ctx context.Context, job Job) error {
	text, err := json.Marshal(job.Plan)
	if err != nil {
		return err
	}
	return h.in(func(api API) error {
		if err := api.Lock(ctx, system, lockName, map[string]string{lockKey: job.Plan.ID, lockCopy: string(text)}); err != nil {
			return err
		}
		if lock, err := api.ConfigMap(ctx, system, lockName); err != nil || lock[lockKey] != job.Plan.ID {
			return err
		}
		return api.SetLocked(ctx, system, lockName, lockKey, job.Plan.ID, map[string]string{lockCopy: string(text)})
	})
}

func (h *here) dropLock(ctx context.Context, job Job) error {
	return h.in(func(api API) error { return api.Unlock(ctx, system, lockName, lockKey, job.Plan.ID) })
}

// switchOff switches the old host off. It refuses if the device is the newcomer's already.
func (h *here) switchOff(ctx context.Context, job Job) error {
	dev, err := h.files.Device(job.Plan.Old.Name)
	if err != nil {
		return err
	}
	if job.Plan.Newcomer.Machine.UUID != "" && dev.UUID == job.Plan.Newcomer.Machine.UUID {
		return fmt.Errorf("the device of %s is that of the machine that takes its place: it is not switched off", job.Plan.Old.Name)
	}
	return h.off(ctx, job.Plan.Old.Name)
}

// changeKey gives Corosync a key that the old host does not have. This host is alone in the
// membership, so no other one needs the key.
func (h *here) changeKey(ctx context.Context, job Job) error {
	if err := h.proven(ctx, job); err != nil {
		return err
	}
	if err := host.WriteFileAtomic(h.path(twonode.CorosyncKey), h.key(job.Secrets.Token), 0o400); err != nil {
		return err
	}
	_, err := h.run(ctx, pacemaker.Reload())
	return err
}

// putToken gives the cluster the secret of the new key and, if there is one, the new account of
// this host's own BMC. Jobs bring both to the newcomer.
func (h *here) putToken(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		if own := job.own(); own.Password != "" {
			account := map[string][]byte{"username": []byte(own.Username), "password": []byte(own.Password)}
			if err := api.PutSecret(ctx, fence.SecretNamespace, fence.SecretPrefix+h.Host, account); err != nil {
				return err
			}
		}
		return api.PutSecret(ctx, etcdSpace, tokenName, map[string][]byte{tokenKey: []byte(job.Secrets.Token)})
	})
}

// own returns the new account of this host's BMC, empty if it is kept.
func (j Job) own() replacement.Account {
	if j.Order == nil || j.Plan == nil || j.Order.Wish.ID != j.Plan.ID {
		return replacement.Account{}
	}
	return j.Order.Own
}

func (h *here) changeJoin(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		return api.PutSecret(ctx, jointoken.KeyNamespace, jointoken.KeySecret, map[string][]byte{jointoken.KeyField: job.Secrets.JoinKey})
	})
}

// putGrave writes the tombstone of the old host, with the UID of the old Node, so that the guard
// lets the newcomer have a Node of the same name.
func (h *here) putGrave(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		p := job.Plan
		node, err := api.Facts(ctx, p.Old.Name)
		if err != nil {
			return err
		}
		entry := grave(p)
		if node.UID == p.Old.UID {
			entry.Machine = node.MachineID
		}
		return api.Retire(ctx, entry)
	})
}

// grave is the tombstone of the old host, as far as the plan knows that host.
func grave(p *replace.Plan) retired.Host {
	return retired.Host{Name: p.Old.Name, UID: p.Old.UID, System: p.Old.Machine.UUID, ControlPlane: true, When: p.Begun, By: p.By, Why: p.Command(), Off: true}
}

// giveName writes into the tombstone that a host has the name again. The tombstone keeps
// the identity of the old machine. One that somebody deleted is written again, from the plan.
func (h *here) giveName(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		list, err := api.Retired(ctx, job.Plan.New.Name)
		if err != nil {
			return err
		}
		entry, there := list.Of(job.Plan.New.Name)
		switch {
		case !there && job.Plan.Grows:
			return nil // no host of the name was taken out
		case !there:
			entry = grave(job.Plan)
		}
		entry.Again = h.now()
		return api.Retire(ctx, entry)
	})
}

func (h *here) dropPods(ctx context.Context, job Job) error {
	if err := h.proven(ctx, job); err != nil {
		return err
	}
	return h.in(func(api API) error { return api.DeletePodsOn(ctx, job.Plan.Old.Name) })
}

func (h *here) dropNode(ctx context.Context, job Job) error {
	if err := h.proven(ctx, job); err != nil {
		return err
	}
	return h.in(func(api API) error { return api.DeleteNode(ctx, job.Plan.Old.Name, job.Plan.Old.UID) })
}

func (h *here) dropSecret(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		return api.DeleteSecret(ctx, fence.SecretNamespace, fence.SecretPrefix+job.Plan.Old.Name)
	})
}

func (h *here) leaveRing(ctx context.Context, job Job) error {
	if err := h.proven(ctx, job); err != nil {
		return err
	}
	return h.editRing(ctx, func(conf []byte) ([]byte, error) { return decide.Leave(conf, job.Plan.Old.Name) })
}

func (h *here) joinRing(ctx context.Context, job Job) error {
	return h.editRing(ctx, func(conf []byte) ([]byte, error) {
		n := decide.Node{Name: job.Plan.New.Name, Address: job.Plan.Newcomer.Address}
		return decide.Enter(conf, n, decide.Former{Name: job.Plan.Old.Name, Number: job.Plan.Old.Number})
	})
}

func (h *here) editRing(ctx context.Context, edit func([]byte) ([]byte, error)) error {
	have, err := os.ReadFile(h.path(corosync.Path))
	if err != nil {
		return err
	}
	conf, err := edit(have)
	if err != nil {
		return err
	}
	if !bytes.Equal(conf, have) {
		if err := host.WriteFileAtomic(h.path(corosync.Path), conf, 0o644); err != nil {
			return err
		}
	}
	_, err = h.run(ctx, pacemaker.Reload())
	return err
}

// forget makes Pacemaker forget the old host. From then on it fences no host of that name.
func (h *here) forget(ctx context.Context, job Job) error {
	if err := h.proven(ctx, job); err != nil {
		return err
	}
	_, err := h.run(ctx, pacemaker.Forget(job.Plan.Old.Name))
	return err
}

// forgetAgain does so after the retirement, when nothing of the old host is left.
func (h *here) forgetAgain(ctx context.Context, job Job) error {
	_, err := h.run(ctx, pacemaker.Forget(job.Plan.Old.Name))
	return err
}

func (h *here) retire(_ context.Context, job Job) error {
	r := state.EtcdRetired{Peer: h.peer(job.Plan.Old.Name), Plan: job.Plan.ID, At: h.now().UTC()}
	if job.Plan.Grows {
		r.Peer, r.Never = job.Plan.New.Name, true
	}
	return h.files.WriteRetired(r)
}

func (h *here) dropRetire(context.Context, Job) error { return h.files.RemoveRetired() }

// dropMember removes a learner that the old host left behind. A lone voter may do that.
func (h *here) dropMember(ctx context.Context, _ Job) error {
	var f replace.Facts
	h.keeper(ctx, &f)
	if !state.Is(f.Voters, 1) || !f.Learner.Known || f.Learner.Value == 0 {
		return fmt.Errorf("the members of etcd changed meanwhile")
	}
	c, err := etcd.Open(etcd.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.RemoveMember(ctx, f.Learner.Value)
}

// putDevice tests that the new host's device belongs to the machine that asks, and writes it
// here and into the cluster.
func (h *here) putDevice(ctx context.Context, job Job) error {
	asks, err := h.plans().Request()
	if err != nil {
		return err
	}
	if asks == nil {
		return fmt.Errorf("the request of %s to enter is gone: while it runs it asks again; see its console", job.Plan.New.Name)
	}
	if job.Order == nil {
		return orderGone(*job.Plan)
	}
	dev := job.Order.Device
	dev.Target, dev.UUID, dev.Serial = job.Plan.New.Name, asks.Machine.UUID, asks.Machine.Serial
	dev.Delay = fencing.DelayOf(dev.Target, []string{h.Host, dev.Target}) // a measured one is of the old machine
	return h.in(func(api API) error {
		_, told, err := h.store.Rotate(ctx, dev, api)
		if err != nil {
			return err
		}
		return told
	})
}

// setFencing sets up Pacemaker's devices for this host and the newcomer.
func (h *here) setFencing(ctx context.Context, job Job) error {
	text, err := h.run(ctx, pacemaker.Configuration())
	if err != nil {
		return err
	}
	cib, err := decide.ParseCIB(text)
	if err != nil {
		return err
	}
	return h.fences(ctx, h.input(job), h.strange(cib, job.Plan))
}
