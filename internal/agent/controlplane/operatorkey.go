package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
)

// operatorKeyEvery is the pause between two checks of the operator's certificate
// for etcd.
const operatorKeyEvery = 30 * time.Second

// keepOperatorKey keeps the operator's pair, even on a host that an earlier
// release installed, and renews it in time. etcd has no part in that. So a
// cluster that was switched off for longer than the pair lasts has another one as
// soon as its agents run.
func (r *Agent) keepOperatorKey(ctx context.Context) {
	trouble, keeper := r.trouble("the operator's certificate for etcd"), operatorkey.New(r.Now)
	for {
		renewed, err := keeper.Keep()
		if renewed {
			r.logf("the operator has a new certificate for etcd")
		}
		if !errors.Is(err, fs.ErrNotExist) { // the host is not set up yet
			trouble.Hear(err)
		}
		if host.Sleep(ctx, operatorKeyEvery) != nil {
			return
		}
	}
}
