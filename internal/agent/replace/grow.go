package replace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// These are the facts and the acts of a site that grows from one control plane to two
// (docs/adr/0092). The steps on the host are those of agent/twonode.

// grows reads the facts that only a growing site needs.
func (h *here) grows(ctx context.Context, f *replace.Facts, job Job) {
	steps := h.steps()
	kubelets, err := steps.KubeletHasEtcd()
	f.Kubelets = carry.Fact(kubelets, err)
	if job.Plan == nil || !job.Plan.Grows {
		return
	}
	podmans, err := steps.PodmanHasEtcd(ctx)
	f.Podmans = carry.Fact(podmans, err)
	wanted, err := h.manifest(job)
	if err != nil {
		return
	}
	have, err := os.ReadFile(h.path(state.EtcdPodManifest))
	f.Manifest = state.Fact[bool]{Known: err == nil || os.IsNotExist(err), Value: err == nil && string(have) == string(wanted)}
}

// keeperless fills in the facts of the etcd keeper while kubelet runs etcd. A keeper reports nothing
// before Pacemaker has told it who the two hosts are.
func (h *here) keeperless(ctx context.Context, f *replace.Facts) {
	if kubelets, err := h.steps().KubeletHasEtcd(); err != nil || !kubelets {
		return
	}
	if r, err := h.files.Record(); err == nil {
		f.Record = state.Known(r.State)
	}
	f.Asked, f.StandIn = state.Known(false), state.Known(false)
	if s, err := h.member(ctx); err == nil {
		f.Serves = state.Known(s.Leader != 0)
		count(f, s.Members)
	}
}

// ownMember asks the etcd of this host.
func ownMember(ctx context.Context) (etcd.MemberStatus, error) {
	c, err := etcd.Open(etcd.Config{})
	if err != nil {
		return etcd.MemberStatus{}, err
	}
	status, err := c.Status(ctx)
	return status, errors.Join(err, c.Close())
}

// steps returns the steps of a host of two, on this host.
func (h *here) steps() *twonode.Host {
	steps := twonode.NewHost(h.Log.Writer())
	steps.Root, steps.Run, steps.Report, steps.Container = h.root, h.run, h.report, h.podman
	return steps
}

// two is the set-up that this host will have with the host that the plan brings. Until the newcomer
// was let in its address is that of the plan.
func (h *here) two(job Job) decide.Input {
	return decide.Input{
		Cluster: h.Cluster, Self: h.Host, Token: job.Secrets.Token,
		Nodes: []decide.Node{{Name: h.Host, Address: h.ownAddress()}, {Name: job.Plan.New.Name, Address: job.Plan.New.Address}},
	}
}

// ownAddress is the address by which Corosync knows this host or, before it does, the one by
// which the cluster does.
func (h *here) ownAddress() string {
	if own := h.address(h.Host); own != "" {
		return own
	}
	if h.Address == nil {
		return ""
	}
	return h.Address()
}

// manifest renders the file from which the etcd keeper will run etcd here.
func (h *here) manifest(job Job) ([]byte, error) {
	in := h.two(job)
	if h.Manifest == nil || in.Nodes[0].Address == "" {
		return nil, fmt.Errorf("the address of %s is not known yet", h.Host)
	}
	return h.Manifest(in.Nodes, h.Host)
}

func (h *here) putManifest(_ context.Context, job Job) error {
	manifest, err := h.manifest(job)
	if err != nil {
		return err
	}
	return h.steps().WriteManifest(manifest)
}

func (h *here) firstRing(ctx context.Context, job Job) error {
	in := h.two(job)
	if err := in.Validate(decide.Auth); err != nil {
		return err
	}
	return h.steps().EnterAlone(ctx, in)
}

func (h *here) setAlone(ctx context.Context, job Job) error {
	return h.steps().ConfigureAlone(ctx, h.two(job))
}

func (h *here) takeEtcd(ctx context.Context, _ Job) error { return h.steps().TakeEtcd(ctx) }

func (h *here) finish(ctx context.Context, job Job) error {
	return h.steps().Do(ctx, decide.Finish, h.two(job))
}
