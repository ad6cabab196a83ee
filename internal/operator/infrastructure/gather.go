package infrastructure

import (
	"context"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// gathered holds the findings of one look at the cluster.
type gathered struct {
	infra    *configv1.Infrastructure
	snapshot vips.Snapshot
	reported vipobject.Report
}

// gather looks once; it returns nil if there is no Infrastructure object.
func (r *Reconciler) gather(ctx context.Context) (*gathered, error) {
	infra, snapshot, err := vipobject.Gather(ctx, r.Client, asker)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	before, err := r.reported(ctx)
	return &gathered{infra: infra, snapshot: snapshot, reported: before}, err
}

// nodeChanged reports whether a node changed in something that decisions use. Its
// heartbeat does not count.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	if !ok || !also {
		return true
	}
	was, is := vips.HostOf(before, asker), vips.HostOf(after, asker)
	return was.ControlPlane != is.ControlPlane || was.Ready != is.Ready || !slices.Equal(was.Addresses, is.Addresses) ||
		!maps.Equal(ours(before), ours(after))
}

// ours returns the annotations that decisions use.
func ours(n *corev1.Node) map[string]string {
	out := map[string]string{}
	for _, name := range []string{state.AnnotationVIPs, state.AnnotationVIPProbe + asker, state.AnnotationVIPAnswer + asker} {
		out[name] = n.Annotations[name]
	}
	return out
}
