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

// prepareJoining makes what lets a bootstrap token join, as far as it is missing:
// the installation applies it a moment after the first host stands, and a cluster
// of an older build does not have it.
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

// removeAutoApproval takes back what kubeadm binds, where it is bound: hosts join
// with tokens of another group, and control planes approve what they ask for.
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

// joiningInterval is the time between two looks at what joins, beside the watch: one
// that hangs, or begins late since the API was away, keeps no host waiting.
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

// watchJoining looks at bootstrap tokens until the context ends: it ends those that
// have served, and while there are others it looks for what was asked with them.
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

// newest puts a value in the place of one that nobody took yet. There is one
// caller for a channel, which holds one.
func newest[T any](c chan T, value T) {
	select {
	case <-c:
	default:
	}
	c <- value
}

// follow does something with each list that comes, and again a second after it
// failed, until the context ends.
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
