package controlplane

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/kube"
)

// accountInterval is the time between two looks for an account that the
// cluster does not know yet. To look is to list a folder.
const accountInterval = 30 * time.Second

// tellAccounts tells the cluster of BMC accounts that were rotated on this
// host while the API was away.
func (r *Agent) tellAccounts(ctx context.Context) {
	store := fence.NewStore()
	for host.Sleep(ctx, accountInterval) == nil {
		pushAccounts(ctx, store, func() (fence.Secrets, error) { return kube.Open(adminKubeconfig) }, r.logf)
	}
}

func pushAccounts(ctx context.Context, store fence.Store, open func() (fence.Secrets, error), logf func(string, ...any)) {
	pending, err := store.ListPending()
	if err != nil {
		logf("%v", err)
	}
	if len(pending) == 0 {
		return
	}
	cluster, err := open()
	if err != nil {
		logf("tell the cluster of the BMC accounts of %v: %v", pending, err)
		return
	}
	pushed, err := store.Push(ctx, cluster)
	if len(pushed) > 0 {
		logf("the cluster knows the new BMC accounts of %v", pushed)
	}
	if err != nil {
		logf("tell the cluster of BMC accounts: %v", err)
	}
}
