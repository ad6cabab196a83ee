package install

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
)

// firstInterval is the pause between two looks at how far the agent is.
const firstInterval = time.Second

// takeFirst waits until the agent has given this host the machine configuration that
// came with its Ignition config, or has taken it back: kubelet and containers start
// after that. The host may boot meanwhile.
func (r *run) takeFirst(ctx context.Context) error {
	first, err := hostconfig.First(r.root)
	if err != nil {
		_, _ = fmt.Fprintf(r.Log, "this host is given its machine configuration once it is a node: %v\n", err)
		return nil
	}
	if first == nil || host.Exists(filepath.Join(r.root, kubeletConfig)) {
		return nil // a node is given its configuration in the API
	}
	store := hostconfig.NewStore(r.root)
	return r.poll(ctx, firstInterval, func(context.Context) (bool, string, error) {
		j, err := store.Journal()
		if err != nil {
			return false, "", err
		}
		ok, waits := j.MayJoin()
		return ok, waits, nil
	})
}
