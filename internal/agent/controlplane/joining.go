package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// prepareJoining makes the missing objects that let a bootstrap token join: the
// installation applies them a moment after the first host's control plane is up,
// and a cluster of an older build does not have them.
func (r *Agent) prepareJoining(ctx context.Context) error {
	own, err := ownObjects(r.Site)
	if err != nil {
		return err
	}
	client, err := r.open()
	if err != nil {
		return err
	}
	var joins []ownObject
	for _, o := range own {
		if o.name == manifests.JoiningName {
			joins = append(joins, o)
		}
	}
	return r.remake(ctx, client, joins)
}

// removeAutoApproval deletes kubeadm's binding for automatic approval, if it
// exists: hosts join with tokens of another group, and control planes approve
// their requests.
func (r *Agent) removeAutoApproval(ctx context.Context, client *kube.Client) error {
	bound, err := client.Names(ctx, kube.ClusterRoleBindings)
	if err != nil || !bound[kubeadm.AutoApproval] {
		return err
	}
	if err := client.DeleteObject(ctx, kube.ClusterRoleBindings+"/"+kubeadm.AutoApproval); err != nil {
		return fmt.Errorf("ClusterRoleBinding %s: %w", kubeadm.AutoApproval, err)
	}
	r.Log.Info("removed a ClusterRoleBinding: control planes approve the certificates of joining hosts", "name", kubeadm.AutoApproval)
	return nil
}

// joiningInterval is the pause between two looks at joining hosts, beside the
// watch: a watch that hangs, or begins late because the API was away, keeps no
// host waiting.
const joiningInterval = 5 * time.Second

// approval decides about the certificates of joining hosts, whenever a watch tells
// of them.
func (r *Agent) approval(open func() (*kube.Client, error)) (loop.Task, loop.Watch) {
	requests := loop.NewLatest[[]joining.Request]()
	decide := loop.Task{Name: "joining certificates", Wake: requests.Wake, Retry: retryInterval, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		list := requests.Get()
		if len(list) == 0 {
			return loop.Result{}, nil
		}
		client, err := open()
		if err != nil {
			return loop.Result{}, err
		}
		return loop.Result{}, r.approver(client).Judge(ctx, list)
	}}
	watch := loop.Watch{Name: "watch of certificate requests", Pause: retryInterval, NotYet: notSetUp, Run: func(ctx context.Context, works func()) error {
		client, err := open()
		if err != nil {
			return err
		}
		return client.FollowRequests(ctx, joining.KubeletSigner, func(list []joining.Request) { works(); requests.Put(list) })
	}}
	return decide, watch
}

func (r *Agent) approver(client *kube.Client) *admission.Approver {
	who := joining.Of(r.Site.Config)
	who.Third, _ = r.third()
	return &admission.Approver{Site: who, API: client, Now: r.Now, Logf: r.logf}
}

// joiningTask looks at bootstrap tokens: it ends those that have served, and while
// there are others it looks for what was asked with them.
func (r *Agent) joiningTask() loop.Task {
	return loop.Task{Name: "joining hosts", First: joiningInterval, Every: joiningInterval, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		client, err := r.open()
		if err != nil {
			return loop.Result{}, err
		}
		return loop.Result{}, r.approver(client).Decide(ctx)
	}}
}
