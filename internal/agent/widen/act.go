package widen

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/agent/carry"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// world returns the World of this host.
func (h *here) world() World {
	return World{Look: h.look, Do: map[widen.Act]func(context.Context, Job) error{ //nolint:exhaustive // the others are no acts of this place
		widen.CopyPlan: h.copyPlan, widen.DropLock: h.dropLock, widen.Tell: h.tellProgress, widen.PutWord: h.putWord, widen.DropWord: h.dropWord,
		widen.GiveName: h.giveName, widen.AddLearner: h.addLearner, widen.DropLearner: h.dropLearner, widen.DropVoter: h.dropVoter, widen.DropNew: h.dropNew,
		widen.KubeletBoot: h.kubeletBoot, widen.Maintain: h.maintain, widen.PutPod: h.putPod, widen.StopEtcd: h.stopEtcd, widen.GivePod: h.givePod,
		widen.EndRing: h.endRing, widen.EndPair: h.endPair, widen.Dress: h.dress,
	}}
}

// in opens the cluster and calls do with it.
func (h *here) in(do func(API) error) error { return carry.In(h.open, do) }

func (h *here) copyPlan(ctx context.Context, job Job) error {
	return h.in(func(api API) error { return carry.CopyPlan(ctx, api, h.Host, Annotation, job.Plan.ID, job.Plan) })
}

func (h *here) dropLock(ctx context.Context, job Job) error {
	return h.in(func(api API) error {
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

// putWord returns once the etcd keeper has read the word: the other host relies on that.
func (h *here) putWord(ctx context.Context, job Job) error {
	word := job.Plan.Word()
	if err := h.files.WriteThird(word); err != nil {
		return err
	}
	return h.keeperSees(ctx, func(s state.EtcdSnapshot) bool { return s.Third.Word == state.Known(word) })
}

func (h *here) dropWord(ctx context.Context, _ Job) error {
	if err := h.files.RemoveThird(); err != nil {
		return err
	}
	return h.keeperSees(ctx, func(s state.EtcdSnapshot) bool { return s.Third.Word == state.Known(state.EtcdThirdWord{}) })
}

// seesTime has room for several rounds of the etcd keeper.
const (
	seesTime  = 5 * time.Second
	seesEvery = 200 * time.Millisecond
)

// keeperSees waits until the etcd keeper's report shows something. There is none to wait for where
// kubelet runs etcd.
func (h *here) keeperSees(ctx context.Context, shows func(state.EtcdSnapshot) bool) error {
	if kubelets, err := h.steps().KubeletHasEtcd(); err != nil || kubelets {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, seesTime, errors.New("the etcd keeper has not seen it yet"))
	defer stop()
	for {
		if r, err := h.report(ctx); err == nil && shows(r.Snapshot) {
			return nil
		}
		if err := host.Sleep(ctx, seesEvery); err != nil {
			return err
		}
	}
}

// lists reports whether a report has the learner of a third host, or none.
func lists(third bool) func(state.EtcdSnapshot) bool {
	return func(s state.EtcdSnapshot) bool {
		return s.Local.Members.Known && (len(learners(s.Local.Members.Value)) > 0) == third
	}
}

func (h *here) giveName(ctx context.Context, job Job) error {
	return h.in(func(api API) error { return api.GiveAgain(ctx, job.Plan.New.Name, h.now()) })
}

// change asks the etcd of this host for its members, and changes them.
func (h *here) change(ctx context.Context, do func(ctx context.Context, c Etcd, members []state.EtcdMember) error) error {
	ctx, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	c, err := h.etcd()
	if err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err == nil {
		err = do(ctx, c, s.Members)
	}
	return errors.Join(err, c.Close())
}

var errMembers = errors.New("the members of etcd changed meanwhile")

func learners(members []state.EtcdMember) (out []state.EtcdMember) {
	for _, m := range members {
		if m.Learner {
			out = append(out, m)
		}
	}
	return out
}

func (h *here) addLearner(ctx context.Context, job Job) error {
	address, err := netip.ParseAddr(job.Plan.New.Address)
	if err != nil {
		return err
	}
	err = h.change(ctx, func(ctx context.Context, c Etcd, members []state.EtcdMember) error {
		if len(members) != 2 || len(learners(members)) > 0 {
			return errMembers
		}
		_, err := c.AddLearner(ctx, etcdpod.PeerURL(address))
		return err
	})
	if err != nil {
		return err
	}
	return h.keeperSees(ctx, lists(true))
}

// dropLearner removes the member of the third host. A voter stays, and so does a learner that the
// plan does not name and that started once under another name: it is the other host's. While the third
// host comes only the member goes whose machine was installed anew: by now etcd may list the next one.
func (h *here) dropLearner(ctx context.Context, job Job) error {
	err := h.change(ctx, func(ctx context.Context, c Etcd, members []state.EtcdMember) error {
		for _, m := range learners(members) {
			if job.Plan.Drops(m.ID, m.Name) {
				return c.RemoveMember(ctx, m.ID)
			}
		}
		return errMembers
	})
	if err != nil {
		return err
	}
	return h.keeperSees(ctx, lists(false))
}

// dropVoter removes the member of a third host that is lost for good. In the same moment the other
// host must serve: the two commit the change, and everything after it.
func (h *here) dropVoter(ctx context.Context, job Job) error {
	if !is(h.serving(ctx, *job.Plan).peer) {
		return errors.New("etcd of the other host does not serve in this moment")
	}
	err := h.change(ctx, func(ctx context.Context, c Etcd, members []state.EtcdMember) error {
		for _, m := range members {
			if !m.Learner && m.ID == job.Plan.Third {
				return c.RemoveMember(ctx, m.ID)
			}
		}
		return errMembers
	})
	if err != nil {
		return err
	}
	return h.keeperSees(ctx, func(s state.EtcdSnapshot) bool {
		return s.Local.Members.Known && !slices.ContainsFunc(s.Local.Members.Value, func(m state.EtcdMember) bool { return m.ID == job.Plan.Third })
	})
}

// dropNew takes out of the cluster what it has of the third host, as of a host that was removed: its
// kubelet may not make its Node again.
func (h *here) dropNew(ctx context.Context, job Job) error {
	p := job.Plan
	return h.in(func(api API) error {
		node, err := api.NodeOf(ctx, p.New.Name)
		if err != nil {
			return err
		}
		grave := retired.Host{Name: p.New.Name, UID: node.UID, System: p.Newcomer.Machine.UUID, Machine: node.MachineID, ControlPlane: true, When: p.Written, By: p.By, Why: "the plan for a third control plane was taken back"}
		if err := api.Retire(ctx, grave); err != nil {
			return err
		}
		if err := api.DeletePodsOn(ctx, p.New.Name); err != nil {
			return err
		}
		return api.DeleteNode(ctx, p.New.Name, node.UID)
	})
}

func (h *here) kubeletBoot(ctx context.Context, _ Job) error { return h.steps().BootKubelet(ctx) }

func (h *here) maintain(ctx context.Context, _ Job) error {
	_, err := h.run(ctx, pacemaker.Maintain())
	return err
}

func (h *here) nodes(p widen.Plan) ([]decide.Node, error) { return nodesOf(h.files, p) }

// pod renders kubelet's file of etcd.
func (h *here) pod(p widen.Plan) ([]byte, error) {
	nodes, err := h.nodes(p)
	if err != nil {
		return nil, err
	}
	if h.Pod == nil {
		return nil, errors.New("this host does not know how to make kubelet's file of etcd")
	}
	return h.Pod(h.Host, nodes)
}

func (h *here) putPod(_ context.Context, job Job) error {
	pod, err := h.pod(*job.Plan)
	if err != nil {
		return err
	}
	return h.steps().PutPod(pod)
}

// stopEtcd stops the etcd of this host. In the same moment the two others must serve, unless somebody
// said that the third one never will. A leader gives its lead away before, since an election would cost
// a second of writes.
func (h *here) stopEtcd(ctx context.Context, job Job) error {
	if s := h.serving(ctx, *job.Plan); !is(s.peer) || !is(s.third) && !job.Plan.Gone {
		return errors.New("one of the two other members of etcd does not serve in this moment")
	}
	// A lead that stays costs an election, and nothing else.
	if err := h.change(ctx, job.giveLead); err != nil {
		h.Log.Printf("the lead of etcd stays here until it stops: %v", err)
	}
	return h.halt(ctx)
}

// giveLead moves the lead of etcd away from this host, and not to a member that is lost.
func (j Job) giveLead(ctx context.Context, c Etcd, _ []state.EtcdMember) error {
	s, err := c.Status(ctx)
	if err != nil || s.Leader != s.Member {
		return err
	}
	for _, m := range s.Members {
		if m.ID != s.Member && !m.Learner && (m.ID != j.Plan.Third || !j.Plan.Gone) {
			return c.MoveLeader(ctx, m.ID)
		}
	}
	return errMembers
}

func (h *here) givePod(ctx context.Context, _ Job) error { return h.steps().GivePod(ctx) }
func (h *here) endRing(ctx context.Context, _ Job) error { return h.steps().EndRing(ctx) }
func (h *here) endPair(ctx context.Context, _ Job) error { return h.steps().EndPair(ctx) }

func (h *here) dress(ctx context.Context, job Job) error {
	if h.Dress == nil {
		return fmt.Errorf("%s does not know how to become one of three control planes", h.Host)
	}
	return h.Dress(ctx, *job.Plan)
}
