package replace

import (
	"context"
	"errors"

	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// These are the facts and the acts of a site that shrinks from two control planes to one, once the
// host that goes was retired (docs/adr/0096). The steps on the host are those of agent/twonode.

// shrinks reads the facts that only a shrinking site needs.
func (h *here) shrinks(ctx context.Context, f *replace.Facts, job Job) {
	f.Target = state.Known(h.plans().HasTargetSite())
	if !job.shrinks() {
		return
	}
	if text, err := h.run(ctx, pacemaker.Configuration()); err == nil {
		cib, err := decide.ParseCIB(text)
		f.Halted, f.Maintained = carry.Fact(cib.Halted(decide.Etcd), err), carry.Fact(cib.InMaintenance(), err)
	}
	if job.Plan == nil || job.Plan.Stage != replace.Narrowing {
		return
	}
	h.keeperless(ctx, f) // the etcd keeper knows nothing of an etcd that kubelet runs
	has := carry.HandsOf(ctx, h.steps(), state.Is(f.Kubelets, true), h.pod)
	f.Podmans, f.Pod, f.Boots, f.Runs, f.Paired = has.Podmans, has.Pod, has.Boots, has.Runs, has.Paired
}

// shrinks reports whether the plan under way, or else the wish, is that of a shrinking site.
func (j Job) shrinks() bool {
	if j.Plan != nil && !j.Plan.Stage.Over() {
		return j.Plan.Shrinks
	}
	return j.Order != nil && j.Order.Wish.Shrinks
}

// pod renders kubelet's file of etcd. Once it is in kubelet's folder nobody needs it any more.
func (h *here) pod() ([]byte, error) {
	own := h.ownAddress()
	if h.Pod == nil || own == "" {
		return nil, errors.New("the address of this host is not known yet")
	}
	return h.Pod(decide.Node{Name: h.Host, Address: own})
}

func (h *here) putPod(context.Context, Job) error {
	pod, err := h.pod()
	if err != nil {
		return err
	}
	return h.steps().PutPod(pod)
}

func (h *here) kubeletBoot(ctx context.Context, _ Job) error { return h.steps().BootKubelet(ctx) }
func (h *here) stopEtcd(ctx context.Context, _ Job) error    { return h.steps().StopEtcd(ctx) }
func (h *here) givePod(ctx context.Context, _ Job) error     { return h.steps().GivePod(ctx) }
func (h *here) endRing(ctx context.Context, _ Job) error     { return h.steps().EndRing(ctx) }
func (h *here) endPair(ctx context.Context, _ Job) error     { return h.steps().EndPair(ctx) }

func (h *here) dress(ctx context.Context, _ Job) error {
	if h.Dress == nil {
		return errors.New("this host does not know how to become a lone control plane")
	}
	return h.Dress(ctx)
}
