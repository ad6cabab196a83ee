package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/identity"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// adminKubeconfig is the file that kubeadm leaves on a control plane. The agent
// uses it only to make what only an administrator may make, and to read what its
// own account lacks the right for.
const adminKubeconfig = state.AdminKubeconfig

// The pauses between two checks of the agent's account, after a failure and after
// a success. The second is a twentieth of the shortest life that a site may choose for its
// certificates, of which a third is left for a renewal.
const (
	identitySoon  = time.Second
	identityEvery = 30 * time.Second
)

// openAgent returns the API by the agent's own account. On a host that is not set
// up yet the error is fs.ErrNotExist.
func openAgent() (*kube.Client, error) { return openBy(state.AgentKubeconfig, "") }

// openAdmin does the same by the administrator's account.
func openAdmin() (*kube.Client, error) { return openBy(adminKubeconfig, "") }

func openBy(kubeconfig, server string) (*kube.Client, error) {
	if _, err := os.Stat(kubeconfig); err != nil {
		return nil, err
	}
	return kube.OpenAt(kubeconfig, server)
}

// identityTask keeps the account that this host's agent has in the API, also on a
// host that an earlier release installed.
func (r *Agent) identityTask() loop.Task {
	keeper := identity.Keeper{Host: r.facts.NodeName, Server: "https://" + r.Site.APIEndpoint(), Period: r.Site.Config.CertificateLife(), Now: r.Now}
	return loop.Task{Name: "agent account", Every: identityEvery, Retry: identitySoon, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		return loop.Result{}, r.identify(ctx, keeper)
	}}
}

// identify gives agents their rights, once in the life of an agent, and then this
// agent its certificate, so that nobody finds a kubeconfig that opens nothing
// yet. If somebody removed the administrator's file before this build came, the
// other host may have given the rights.
func (r *Agent) identify(ctx context.Context, keeper identity.Keeper) error {
	var rights error
	if !r.entitled {
		rights = r.entitle(ctx)
		r.entitled = rights == nil
	}
	noAdmin := errors.Is(rights, fs.ErrNotExist)
	if rights != nil && !keeper.Has() && (!noAdmin || !r.stands()) {
		return rights
	}
	renewed, err := keeper.Keep()
	if renewed {
		r.Log.Info("this agent has a new certificate for the API")
	}
	if noAdmin {
		rights = nil // entitle asks again by the agent's own account
	}
	return errors.Join(rights, err)
}

// entitle makes the missing objects that give agents their rights, and adds
// missing rules: an earlier release may have needed fewer. It keeps rules beyond
// those, because the other host's agent may be of a later release.
func (r *Agent) entitle(ctx context.Context) error {
	own, err := ownObjects(r.Site)
	if err != nil {
		return err
	}
	rights := slices.DeleteFunc(own, func(o ownObject) bool {
		return o.name != manifests.AgentsName && (o.kind != "Namespace" || o.name != manifests.NamespaceEtcd)
	})
	client, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		client, err = r.admin()
	}
	if err != nil {
		return err
	}
	if err := r.remake(ctx, client, rights); err != nil {
		return err
	}
	var errs []error
	for _, o := range rights {
		if err := r.complete(ctx, client, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.what, err))
		}
	}
	return errors.Join(errs...)
}

// complete adds to a role the rules that it lacks.
func (r *Agent) complete(ctx context.Context, client *kube.Client, o ownObject) error {
	var want rbacv1.ClusterRole
	if err := json.Unmarshal(o.data, &want); err != nil || len(want.Rules) == 0 {
		return err // it is no role
	}
	path := o.collection + "/" + o.name
	have, err := client.Rules(ctx, path)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(want.Rules, func(w rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(have, func(h rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(h, w) })
	})
	if len(missing) == 0 {
		return nil
	}
	admin, err := r.administrator()
	if err != nil {
		return err
	}
	if err := admin.AddRules(ctx, path, missing); err != nil {
		return err
	}
	r.Log.Info("added rules that an agent of this release needs", "to", o.what, "rules", len(missing))
	return nil
}

// administrator returns the API by the account that may make what agents may not.
// Without that account it returns an error that says so.
func (r *Agent) administrator() (*kube.Client, error) {
	client, err := r.admin()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("only an administrator may create it, and this host has no %s: docs/runbook/deleted-objects.md says how it is made", adminKubeconfig)
	}
	return client, err
}
