package install

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/podman"
)

// loadEtcdForPodman gives etcd's image to podman too.
func (r *run) loadEtcdForPodman(ctx context.Context) error {
	return r.store.GiveEtcd(ctx, podman.Ensure)
}
