package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/fence"
)

// accountInterval is the pause between two looks for an account that the cluster
// does not know yet. A look lists a folder.
const accountInterval = 30 * time.Second

// accountsTask tells the cluster of BMC accounts that were rotated on this
// host while the API was away.
func (r *Agent) accountsTask() loop.Task {
	store := fence.NewStore()
	return loop.Task{Name: "BMC accounts", First: accountInterval, Every: accountInterval, Limit: aRequest, Step: func(ctx context.Context) (out loop.Result, err error) {
		pushed, err := pushAccounts(ctx, store, func() (fence.Secrets, error) { return r.open() })
		if len(pushed) > 0 {
			out.Changed = fmt.Sprintf("published the new BMC accounts of %v in the cluster", pushed)
		}
		return out, err
	}}
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
