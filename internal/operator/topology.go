package operator

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

var errTopology = errors.New("the number of control planes has changed: the operator ends, and begins anew with the controllers of that site")

// topologyWatch ends the operator once the cluster is no longer of the kind for which it has set
// its controllers up. It works in an operator that waits for the lease, too.
type topologyWatch struct {
	manager ctrl.Manager
	twoNode bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*topologyWatch) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *topologyWatch) Start(ctx context.Context) error {
	informer, err := w.manager.GetCache().GetInformer(ctx, &configv1.Infrastructure{})
	if err != nil {
		return fmt.Errorf("watch the cluster's topology: %w", err)
	}
	changed := make(chan struct{}, 1)
	look := func(object any) {
		if !differs(object, w.twoNode) {
			return
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) }})
	if err != nil {
		return fmt.Errorf("watch the cluster's topology: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(handle) }()
	select {
	case <-ctx.Done():
		return nil
	case <-changed:
		return errTopology
	}
}

// differs reports whether an object says that the cluster is of another kind.
func differs(object any, twoNode bool) bool {
	infra, ok := object.(*configv1.Infrastructure)
	if !ok || infra.Name != clusterObject || infra.Status.ControlPlaneTopology == "" {
		return false
	}
	return (infra.Status.ControlPlaneTopology == configv1.DualReplicaTopologyMode) != twoNode
}

// clusterObject is the name of the object that says what the cluster is.
const clusterObject = "cluster"
