package install

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/payload"
)

// loadEtcdForPodman hands etcd's image to podman too: on two control planes it
// has to start while there is neither a kubelet nor a registry.
func (r *run) loadEtcdForPodman(ctx context.Context) error {
	have, err := host.Run(ctx, host.Command("podman", "images", "--format", "{{.Repository}}:{{.Tag}}"))
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(have)), payload.Image("etcd")) {
		return nil
	}
	read, write := io.Pipe()
	go func() { write.CloseWithError(r.store.WriteImageArchive(write, "etcd")) }()
	load := host.Command("podman", "load", "--quiet")
	load.Stdin = read
	_, err = host.Run(ctx, load)
	return errors.Join(err, read.Close())
}
