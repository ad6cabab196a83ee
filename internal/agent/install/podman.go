package install

import (
	"context"
	"io"

	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// loadEtcdForPodman gives etcd's image to podman too: on two control planes etcd
// has to start while there is neither a kubelet nor a registry.
func (r *run) loadEtcdForPodman(ctx context.Context) error {
	return podman.Ensure(ctx, payload.Image("etcd"), func(w io.Writer) error {
		return r.store.WriteImageArchive(w, "etcd")
	})
}
