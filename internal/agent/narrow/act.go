package narrow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// world returns the World of this host.
func (h *here) world() World {
	return World{Look: h.look, Do: map[narrow.Act]func(context.Context, Job) error{ //nolint:exhaustive // the others are no acts of this place
		narrow.CopyPlan: h.copyPlan, narrow.DropLock: h.dropLock, narrow.Tell: h.tellProgress, narrow.Prepare: h.prepare, narrow.Dress: h.dress, narrow.Undress: h.undress,
		narrow.PutWord: h.putWord, narrow.DropWord: h.dropWord, narrow.EnterRing: h.enterRing, narrow.SetUp: h.setUp, narrow.AskStart: h.askStart, narrow.EndRing: h.endRing,
		narrow.EndPair: h.endPair, narrow.Maintain: h.maintain, narrow.TakeEtcd: h.takeEtcd, narrow.Manage: h.manage, narrow.Order: h.order, narrow.AskEmpty: h.askEmpty, narrow.Leave: h.leave,
		narrow.DropOld: h.dropOld,
	}}
}

// The Secret by which the other host gets the site of two with the accounts of both BMCs, and that of the
// hosts' trust, from which both make Corosync's key. The operator of two has the latter, too.
const (
	targetSecret = "holdfast-two-control-planes"
	targetKey    = "target"
	tokenSecret  = "pacemaker-auth"
	tokenKey     = "token"
	tokenBytes   = 32
)

func newToken() string {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}

// copyPlan takes the lock, or writes the newer plan into it. Once the lock is this plan's the other host
// finds the accounts of the BMCs before it reads that it needs them.
func (h *here) copyPlan(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		if job.Plan.Stage == narrow.Preparing {
			if err := h.share(ctx, api, job.Plan.ID); err != nil {
				return err
			}
		}
		return carry.CopyPlan(ctx, api, h.Host, Annotation, job.Plan.ID, job.Plan)
	})
}

// share gives the cluster what the other host becomes. The identity of the site is on its disk.
func (h *here) share(ctx context.Context, api API, plan string) error {
	t, err := h.target()
	if err != nil {
		return err
	}
	text, err := replacement.NarrowTarget{Plan: plan, Site: &site.Site{Role: t.Site.Role, Config: t.Site.Config}, Devices: t.Devices}.Marshal()
	if err != nil {
		return err
	}
	return api.PutSecret(ctx, replace.LockNamespace, targetSecret, map[string][]byte{targetKey: text})
}

// shared writes down on this host what the carrier gave the cluster, unless that is written down. What is
// there of another plan, or of a wish that was typed on this host, does not count.
func (h *here) shared(ctx context.Context, plan string) error {
	if t, err := h.store.NarrowTarget(); err != nil || t != nil && t.Plan == plan {
		return err
	}
	own, err := h.Own()
	if err != nil {
		return err
	}
	var data map[string][]byte
	err = h.in(func(api API) (err error) {
		data, err = api.Secret(ctx, replace.LockNamespace, targetSecret)
		return err
	})
	if err != nil {
		return err
	}
	if len(data[targetKey]) == 0 {
		return fmt.Errorf("the Secret %s/%s has no site of two control planes yet", replace.LockNamespace, targetSecret)
	}
	t, err := replacement.UnmarshalNarrowTarget(data[targetKey])
	if err != nil {
		return err
	}
	if t.Plan != plan {
		return fmt.Errorf("the Secret %s/%s has the site of another plan (%q)", replace.LockNamespace, targetSecret, t.Plan)
	}
	mine := *own
	mine.Config = t.Site.Config
	return h.store.PutNarrowTarget(replacement.NarrowTarget{Plan: plan, Site: &mine, Devices: t.Devices})
}

// whose returns the plan by which the cluster has accounts of BMCs. It is empty if there are none, or none
// that can be read.
func whose(ctx context.Context, api API) (plan string, err error) {
	data, err := api.Secret(ctx, replace.LockNamespace, targetSecret)
	if err != nil {
		return "", err
	}
	if t, err := replacement.UnmarshalNarrowTarget(data[targetKey]); err == nil {
		plan = t.Plan
	}
	return plan, nil
}

// dropLock removes the accounts of the BMCs from the cluster, and then the lock. If somebody deleted the lock
// before, another plan may have accounts there.
func (h *here) dropLock(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
		of, err := whose(ctx, api)
		if err == nil && (of == "" || of == job.Plan.ID) {
			err = api.DeleteSecret(ctx, replace.LockNamespace, targetSecret)
		}
		if err != nil {
			return err
		}
		there := func(ctx context.Context, name string) (bool, error) {
			node, err := api.NodeOf(ctx, name)
			return node.There, err
		}
		return carry.DropLock(ctx, api, []string{job.Plan.Survivor, job.Plan.Peer}, there, Annotation, job.Plan.ID)
	})
}

// tellProgress looks once more: what is told counts for the other host.
func (h *here) tellProgress(ctx context.Context, job Job) error {
	return h.in(func(api API) error { return carry.TellPeer(ctx, api, job.Plan.ID, h.look(ctx, job).Progress()) })
}

// trace changes what is written down of two control planes on this host.
func (h *here) trace(change func(*replacement.NarrowTrace)) error {
	t, err := h.store.NarrowTrace()
	if err != nil {
		return err
	}
	change(&t)
	return h.store.PutNarrowTrace(t)
}

// prepare brings packages, files, units and the device of the peer, which is tested before it is written.
func (h *here) prepare(ctx context.Context, job Job) error {
	if err := h.shared(ctx, job.Plan.ID); err != nil {
		return err
	}
	t, err := h.target()
	if err != nil {
		return err
	}
	if err := h.trace(func(t *replacement.NarrowTrace) { t.Began = true }); err != nil {
		return err
	}
	if err := h.Equip(ctx, t.Site); err != nil {
		return err
	}
	in, err := h.input(ctx, *job.Plan)
	if err != nil {
		return err
	}
	in.Fencing = t.Devices
	if err := in.Validate(decide.Fencing); err != nil {
		return err
	}
	if err := h.steps().Do(ctx, decide.Fencing, in); err != nil {
		return err
	}
	return h.trace(func(t *replacement.NarrowTrace) { t.Equipped = true })
}

// dress makes this host, and the cluster on the host that carries the plan, those of two. The agent that
// starts then belongs to two.
func (h *here) dress(ctx context.Context, job Job) error {
	t, err := h.target()
	if err != nil {
		return err
	}
	if job.Plan.Survivor == h.Host {
		if err := h.trace(func(t *replacement.NarrowTrace) { t.Dressing = true }); err != nil {
			return err
		}
		// The operator makes it only where there are two Nodes.
		if err := h.in(func(api API) error { return h.trust(ctx, api) }); err != nil {
			return err
		}
	}
	if err := h.Dress(ctx, *job.Plan, t.Site); err != nil {
		return err
	}
	return h.Restart(ctx)
}

// trust makes the secret of the hosts' trust, once.
func (h *here) trust(ctx context.Context, api API) error {
	data, err := api.Secret(ctx, manifests.NamespaceEtcd, tokenSecret)
	if err != nil || len(data[tokenKey]) > 0 {
		return err
	}
	return api.PutSecret(ctx, manifests.NamespaceEtcd, tokenSecret, map[string][]byte{tokenKey: []byte(h.token())})
}

// undress makes this host, and the cluster on the host that carries the plan, those of three again.
func (h *here) undress(ctx context.Context, job Job) error {
	t, err := h.target()
	if err != nil {
		return err
	}
	if err := h.Undress(ctx, *job.Plan, t.Site); err != nil {
		return err
	}
	if err := h.trace(func(t *replacement.NarrowTrace) { t.Dressing = false }); err != nil {
		return err
	}
	return h.Restart(ctx)
}

// putWord needs nobody's answer: the keeper has not been asked for anything yet. It reads the word before
// it decides.
func (h *here) putWord(_ context.Context, job Job) error { return h.files.WriteThird(job.Plan.Word()) }

// dropWord needs none either: beside a record the keeper takes nothing from the word.
func (h *here) dropWord(context.Context, Job) error { return h.files.RemoveThird() }

func (h *here) enterRing(ctx context.Context, job Job) error {
	in, err := h.input(ctx, *job.Plan)
	if err != nil {
		return err
	}
	manifest, err := h.Manifest(in.Nodes, h.Host)
	if err != nil {
		return err
	}
	in.Manifest = string(manifest)
	err = h.in(func(api API) error {
		data, err := api.Secret(ctx, manifests.NamespaceEtcd, tokenSecret)
		in.Token = string(data[tokenKey])
		return err
	})
	if err != nil {
		return err
	}
	return h.steps().EnterPair(ctx, in)
}

func (h *here) setUp(ctx context.Context, job Job) error {
	in, err := h.input(ctx, *job.Plan)
	if err != nil {
		return err
	}
	return h.steps().ConfigureMaintained(ctx, in)
}

func (h *here) askStart(ctx context.Context, job Job) error {
	in, err := h.input(ctx, *job.Plan)
	if err != nil {
		return err
	}
	return h.steps().AskEtcd(ctx, in)
}

func (h *here) endRing(ctx context.Context, _ Job) error { return h.steps().EndRing(ctx) }

// endPair ends the etcd keeper, and takes away what prepare brought: the keeper's unit after its files. The
// trace goes last: until then it is done again.
func (h *here) endPair(ctx context.Context, _ Job) error {
	paired, err := h.steps().Paired()
	if err != nil {
		return err
	}
	if paired || host.Exists(h.path(keeperUnit)) {
		if err := h.steps().EndPair(ctx); err != nil {
			return err
		}
	}
	trace, err := h.store.NarrowTrace()
	if err != nil {
		return err
	}
	t, err := h.store.NarrowTarget()
	if err != nil {
		return err
	}
	if trace.Began && t != nil { // without a target nothing was brought
		if err := h.Strip(ctx, t.Site); err != nil {
			return err
		}
	}
	return h.trace(func(t *replacement.NarrowTrace) { t.Began, t.Equipped = false, false })
}

// keeperUnit is the unit of the etcd keeper, which goes with the files of two.
const keeperUnit = plan.UnitDir + "/" + renderhost.EtcdUnit

// presently asks the other members in this moment, and returns where all three are.
func (h *here) presently(ctx context.Context, p narrow.Plan) (peer, third bool, at map[string]string, err error) {
	ask, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	s := h.about(Job{Plan: &p}, nil)
	at = h.addresses(ask, s)
	all := h.statuses(ask, at)
	votes := func(name string) bool { a, told := all[name]; return told && a.Votes() }
	nodes, err := h.nodes(ask, p)
	for _, n := range nodes {
		at[n.Name] = n.Address
	}
	return votes(s.peer), votes(s.old.Name), at, err
}

// takeEtcd takes etcd from kubelet. In the same moment the two others must serve. A leader gives its lead
// away before, since an election would cost a second of writes.
func (h *here) takeEtcd(ctx context.Context, job Job) error {
	peer, third, at, err := h.presently(ctx, *job.Plan)
	if err != nil {
		return err
	}
	if !peer || !third && !job.Plan.Accepts.Gone {
		return errNow
	}
	h.giveLead(ctx, h.Host, at)
	return h.steps().TakeEtcd(ctx)
}

// leadTime is how long a lead may take to move. One that stays costs an election, and nothing else.
const (
	leadTime  = 3 * time.Second
	leadEvery = 200 * time.Millisecond
)

// giveLead moves the lead of etcd from the member of a host.
func (h *here) giveLead(ctx context.Context, of string, at map[string]string) {
	ctx, stop := context.WithTimeoutCause(ctx, leadTime, errors.New("not within "+leadTime.String()))
	defer stop()
	err := etcd.LeadGiven(ctx, leadEvery, func(ctx context.Context) (bool, error) { return h.lead(ctx, of, at) })
	if err != nil {
		h.Log.Printf("the lead of etcd may stay at %s: %v", of, err)
	}
}

func (h *here) maintain(ctx context.Context, _ Job) error { return h.steps().Maintain(ctx) }

func (h *here) manage(ctx context.Context, _ Job) error { return h.steps().Manage(ctx) }

func (h *here) order(ctx context.Context, job Job) error {
	in, err := h.input(ctx, *job.Plan)
	if err != nil {
		return err
	}
	return h.steps().Do(ctx, decide.Finish, in)
}

func (h *here) askEmpty(ctx context.Context, job Job) error {
	since := h.now().UTC().Format(time.RFC3339)
	return h.in(func(api API) error {
		return api.SetAnnotations(ctx, job.Plan.Old.Name, map[string]*string{drain.Wanted: &since})
	})
}

// leave removes the member of the host that goes. In the same moment the other two must serve.
func (h *here) leave(ctx context.Context, job Job) error {
	peer, third, at, err := h.presently(ctx, *job.Plan)
	if err != nil {
		return err
	}
	if !peer {
		return errNow
	}
	if third {
		h.giveLead(ctx, job.Plan.Old.Name, at)
	}
	ctx, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	c, err := h.etcd()
	if err != nil {
		return err
	}
	return errors.Join(c.RemoveMember(ctx, job.Plan.Third), c.Close())
}

// dropOld takes out of the cluster what it has of the host that goes, as of a host that was removed: its
// kubelet may not make its Node again.
func (h *here) dropOld(ctx context.Context, job Job) error {
	p := job.Plan
	return h.in(func(api API) error {
		node, err := api.NodeOf(ctx, p.Old.Name)
		if err != nil {
			return err
		}
		grave := retired.Host{
			Name: p.Old.Name, UID: node.UID, System: p.Old.Machine.UUID, Machine: node.MachineID, ControlPlane: true, When: p.Begun, By: p.By, Why: "the site goes on with two control planes",
		}
		if node.UID == "" {
			grave.UID = p.Old.UID
		}
		if err := api.Retire(ctx, grave); err != nil {
			return err
		}
		if err := api.DeletePodsOn(ctx, p.Old.Name); err != nil {
			return err
		}
		return api.DeleteNode(ctx, p.Old.Name, grave.UID)
	})
}
