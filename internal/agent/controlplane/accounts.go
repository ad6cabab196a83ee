package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/fence"
)

// accountInterval is the pause between two looks for an account that the cluster
// does not know yet. A look lists a folder.
const accountInterval = 30 * time.Second

// tellAccounts gives the cluster the BMC accounts that were rotated on this host
// while the API was away.
func (r *Agent) tellAccounts(ctx context.Context) {
	store, trouble := fence.NewStore(), r.trouble("publish BMC accounts in the cluster")
	for host.Sleep(ctx, accountInterval) == nil {
		pushed, err := pushAccounts(ctx, store, func() (fence.Secrets, error) { return r.open() })
		if len(pushed) > 0 {
			r.logf("published the new BMC accounts of %v in the cluster", pushed)
		}
		trouble.Hear(err)
	}
}

// pushAccounts returns the hosts whose accounts it gave to the cluster. If none
// is pending it does not open the cluster.
func pushAccounts(ctx context.Context, store fence.Store, open func() (fence.Secrets, error)) (pushed []string, err error) {
	pending, err := store.ListPending()
	if len(pending) == 0 {
		return nil, err
	}
	cluster, openErr := open()
	if openErr != nil {
		return nil, errors.Join(err, fmt.Errorf("%v: %w", pending, openErr))
	}
	pushed, pushErr := store.Push(ctx, cluster)
	return pushed, errors.Join(err, pushErr)
}
