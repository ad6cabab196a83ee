package podman

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// storage is the folder in which podman keeps images and containers.
var storage = "/var/lib/containers"

// loadLimit bounds the loading of an image from the host's own disk.
const loadLimit = 2 * time.Minute

// HasImage reports whether podman has the image ref.
func HasImage(ctx context.Context, ref string) (bool, error) {
	_, err := podman(ctx, lookLimit, "image", "exists", ref)
	if host.ExitCode(err) == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for image %s: %w", ref, explained(err))
	}
	return true, nil
}

// Ensure makes sure that podman has an image. If it is missing, Ensure loads it
// from the archive that write writes, for example
// release.Store.WriteImageArchive.
func Ensure(ctx context.Context, ref string, write func(io.Writer) error) error {
	have, err := HasImage(ctx, ref)
	if err != nil || have {
		return err
	}
	read, to := io.Pipe()
	go func() { to.CloseWithError(write(to)) }()
	err = load(ctx, read)
	_ = read.Close() // the writer must not wait for a podman that has ended
	if err != nil {
		return err
	}
	if have, err = HasImage(ctx, ref); err == nil && !have {
		err = fmt.Errorf("load image %s: the archive holds another one", ref)
	}
	return err
}

// RemoveImage has podman no longer have an image. It fails if a container was made of it.
func RemoveImage(ctx context.Context, ref string) error {
	have, err := HasImage(ctx, ref)
	if err != nil || !have {
		return err
	}
	if _, err := podman(ctx, loadLimit, "image", "rm", ref); err != nil {
		return fmt.Errorf("remove image %s from podman: %w", ref, explained(err))
	}
	return nil
}

// load loads the images of an archive and makes them durable. podman does not
// do that, and a program that a power cut left full of zeros is noticed only
// when it is needed most.
func load(ctx context.Context, archive io.Reader) error {
	_, err := podmanFrom(ctx, archive, loadLimit, "load", "--quiet")
	if err == nil {
		err = host.SyncFilesystem(storage)
	}
	if err != nil {
		return fmt.Errorf("load an image into podman: %w", explained(err))
	}
	return nil
}
