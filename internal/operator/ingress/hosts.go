package ingress

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// noLists is the warning for an operator that is newer than the cluster's
// objects, or for a kind that somebody deleted.
var noLists = "the owners of hosts are not recorded, because the cluster has no kind " + render.HostsKind.Kind + " of " + render.HostsKind.Group +
	": apply the files of this release that docs/runbook/ingress.md names, and restart the operator"

// knowsLists reports whether the cluster knows the kind of lists of hosts. A
// watch of an unknown kind would end the operator, and all that it keeps.
func knowsLists(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(render.HostsKind.GroupKind(), render.HostsKind.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("check whether the kind %s exists: %w", render.HostsKind.Kind, err)
	}
	return err == nil, nil
}

// gatherHosts reads the list of whose hosts are, and the ConfigMap that held it
// in earlier releases.
func (r *Reconciler) gatherHosts(ctx context.Context, g *gathered) error {
	if !r.lists {
		return nil
	}
	if err := get(ctx, r.Client, decide.HostsName(g.name), &g.hostList); err != nil {
		return err
	}
	if err := get(ctx, r.Client, decide.HostsName(g.name), &g.formerHosts); err != nil {
		return err
	}
	if g.formerHosts != nil && !decide.Owned(g.name, g.formerHosts.Labels) {
		g.formerHosts = nil // the name is free again
	}
	return nil
}

// keepHosts writes the list, and then deletes the former one: in between, a
// policy of either release finds one.
func (r *Reconciler) keepHosts(ctx context.Context, g *gathered, want *render.RouteHosts) error {
	if !r.lists {
		return nil
	}
	if err := ensure(ctx, r, g, g.hostList, want, plain[render.RouteHosts]("data")); err != nil {
		return err
	}
	return r.obsolete(ctx, g, g.formerHosts, true)
}
