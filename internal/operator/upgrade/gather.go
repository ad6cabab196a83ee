package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	incidents "github.com/holdfast/holdfast/internal/report/incident"
)

// clusterName is the name of the objects that there is one of.
const clusterName = "cluster"

// gather looks once. What this account may not read, or a cluster does not have, is
// unknown.
func (r *Reconciler) gather(ctx context.Context, version *configv1.ClusterVersion, b book) (*gathered, error) {
	g := &gathered{version: version, book: b}
	g.seen = survey.Seen{Version: *version, Record: b.record, TwoNode: r.TwoNode, Zones: time.LoadLocation}
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	g.seen.Nodes, g.seen.Now = nodes.Items, r.Now() // no word of a host is from after this moment, if clocks agree
	addresses := controlPlanes(nodes.Items)
	g.seen.Etcd = r.Etcd(ctx, addresses)
	for _, read := range []func(context.Context, *gathered) error{r.size, r.pacemaker, r.pools, r.rotations, r.plan, r.incidents, r.brought, r.workloads} {
		if err := read(ctx, g); err != nil {
			return nil, err
		}
	}
	g.seen.Leaders = g.works.idle()
	if err := r.slow(ctx, g, addresses); err != nil {
		return nil, err
	}
	g.seen.Parts = partsOf(g.works, g.seen, survey.Of(g.seen))
	g.survey = survey.Of(g.seen)
	return g, nil
}

// size reads how many control planes the site has. A configuration that cannot be read tells nothing.
func (r *Reconciler) size(ctx context.Context, g *gathered) error {
	var cm corev1.ConfigMap
	err := client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: machineconfig.InstallNamespace, Name: machineconfig.InstallName}, &cm))
	text, err := known(cm.Data[machineconfig.InstallKey], err, "read the site's configuration")
	if c, wrong := config.Unmarshal([]byte(text.Value)); text.Value != "" && wrong == nil {
		g.seen.ControlPlanes = state.Fact[int]{Known: c.ControlPlaneReplicas() > 0, Value: c.ControlPlaneReplicas()}
	}
	return err
}

// controlPlanes returns the addresses of control planes, by their names.
func controlPlanes(nodes []corev1.Node) map[string]string {
	out := map[string]string{}
	for i := range nodes {
		n := &nodes[i]
		if !survey.ControlPlane(n) {
			continue
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && out[n.Name] == "" {
				out[n.Name] = a.Address
			}
		}
	}
	return out
}

// unreadable reports whether something is not there, or not for this account: that is an
// unknown fact, and no reason to stop.
func unreadable(err error) bool { return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) }

// known returns a fact, unless it could not be read.
func known[T any](value T, err error, what string) (state.Fact[T], error) {
	switch {
	case err == nil:
		return state.Known(value), nil
	case unreadable(err):
		return state.Fact[T]{}, nil
	}
	return state.Fact[T]{}, fmt.Errorf("%s: %w", what, err)
}

func (r *Reconciler) pacemaker(ctx context.Context, g *gathered) (err error) {
	if !r.TwoNode {
		return nil
	}
	var c etcdv1.PacemakerCluster
	err = r.Live.Get(ctx, client.ObjectKey{Name: clusterName}, &c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	g.seen.Pacemaker, err = known(c.Status, err, "read PacemakerCluster")
	return err
}

func (r *Reconciler) pools(ctx context.Context, g *gathered) (err error) {
	var list mcfgv1.MachineConfigPoolList
	err = r.Live.List(ctx, &list)
	g.seen.Pools, err = known(list.Items, err, "list MachineConfigPools")
	return err
}

// rotations names the authorities that are being replaced.
func (r *Reconciler) rotations(ctx context.Context, g *gathered) (err error) {
	var s corev1.Secret
	err = client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: rotation.WishNamespace, Name: rotation.WishName}, &s))
	var out []string
	for _, a := range rotation.Authorities() {
		// One that cannot be read may be under way.
		if w, wrong := rotation.ParseWish(s.Data[string(a)]); wrong != nil || w.Running() {
			out = append(out, string(a))
		}
	}
	g.seen.Rotations, err = known(out, err, "read the wishes for rotations")
	return err
}

// plan says which plan replaces a control plane or adds one.
func (r *Reconciler) plan(ctx context.Context, g *gathered) (err error) {
	var lock corev1.ConfigMap
	err = client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &lock))
	g.seen.Plan, err = known(replace.InForce(lock.Data), err, "read the plan that changes control planes")
	return err
}

// incidents names the incidents that are not over, as all control planes tell.
func (r *Reconciler) incidents(ctx context.Context, g *gathered) error {
	out := []string{}
	seen := map[string]bool{}
	for name := range controlPlanes(g.seen.Nodes) {
		var cm corev1.ConfigMap
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: incidents.Namespace, Name: incidents.ConfigMap(name)}, &cm)
		if apierrors.IsNotFound(err) {
			continue
		}
		if unreadable(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the incidents of %s: %w", name, err)
		}
		var list []incident.Incident
		if json.Unmarshal([]byte(cm.Data[incidents.KeyIncidents]), &list) != nil {
			return nil //nolint:nilerr // what cannot be read is unknown
		}
		for _, i := range list {
			if i.State != incident.Over && !seen[i.ID] {
				seen[i.ID] = true
				out = append(out, i.Title)
			}
		}
	}
	g.seen.Incidents = state.Known(out)
	return nil
}
