package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
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
	r.logf("removed ClusterRoleBinding %s: control planes approve the certificates of joining hosts", kubeadm.AutoApproval)
	return nil
}

// joiningInterval is the pause between two looks at joining hosts, beside the
// watch: a watch that hangs, or begins late because the API was away, keeps no
// host waiting.
const joiningInterval = 5 * time.Second

// approve decides about the certificates of joining hosts until the context ends.
func (r *Agent) approve(ctx context.Context) {
	if len(r.facts.Addresses) == 0 {
		return
	}
	if client := r.ownAPI(ctx, "joining hosts"); client != nil {
		r.approveBy(ctx, client)
	}
}

func (r *Agent) approveBy(ctx context.Context, client *kube.Client) {
	a := &admission.Approver{Site: joining.Of(r.Site.Config), API: client, Now: r.Now, Logf: r.logf}
	latest := make(chan []joining.Request, 1)
	go func() {
		for ctx.Err() == nil {
			_ = client.FollowRequests(ctx, func(list []joining.Request) { newest(latest, list) }) // it ends with the context
			_ = host.Sleep(ctx, again)
		}
	}()
	trouble := r.trouble("certificates of joining hosts")
	follow(ctx, latest, a.Judge, trouble.Hear)
}

// watchJoining looks at bootstrap tokens until the context ends: it deletes those
// that have served, and while others remain it looks for requests made with them.
func (r *Agent) watchJoining(ctx context.Context) {
	trouble := r.trouble("joining hosts")
	for host.Sleep(ctx, joiningInterval) == nil {
		client, err := r.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the host is not set up yet
		}
		if err == nil {
			err = (&admission.Approver{Site: joining.Of(r.Site.Config), API: client, Now: r.Now, Logf: r.logf}).Look(ctx)
		}
		trouble.Hear(err)
	}
}

// newest replaces the value that nobody took yet. The channel must hold one value
// and have one sender.
func newest[T any](c chan T, value T) {
	select {
	case <-c:
	default:
	}
	c <- value
}

// follow calls do with each list that comes, and again a second after a failure,
// until the context ends.
func follow[T any](ctx context.Context, lists <-chan T, do func(context.Context, T) error, hear func(error)) {
	retry := time.NewTimer(again)
	retry.Stop()
	defer retry.Stop()
	var list T
	for {
		select {
		case <-ctx.Done():
			return
		case list = <-lists:
		case <-retry.C:
		}
		err := do(ctx, list)
		if err != nil {
			retry.Reset(again)
		}
		hear(err)
	}
}
