package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/fence"
)

// accountInterval is the time between two looks for an account that the
// cluster does not know yet. To look is to list a folder.
const accountInterval = 30 * time.Second

// tellAccounts tells the cluster of BMC accounts that were rotated on this
// host while the API was away.
func (r *Agent) tellAccounts(ctx context.Context) {
	store, trouble := fence.NewStore(), r.trouble("tell the cluster of BMC accounts")
	for host.Sleep(ctx, accountInterval) == nil {
		pushed, err := pushAccounts(ctx, store, func() (fence.Secrets, error) { return r.open() })
		if len(pushed) > 0 {
			r.logf("the cluster knows the new BMC accounts of %v", pushed)
		}
		trouble.Hear(err)
	}
}

// pushAccounts returns of which hosts the cluster was told. Where there is
// nothing to tell the cluster is not asked for.
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
