package podman

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/host"
)

// loadLimit bounds the loading of an image from the host's own disk.
const loadLimit = 2 * time.Minute

// HasImage reports whether podman has an image.
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

// LoadImage loads the images of an archive, as release.Store writes it.
func LoadImage(ctx context.Context, archivePath string) error {
	if _, err := podman(ctx, loadLimit, "load", "--quiet", "--input", archivePath); err != nil {
		return fmt.Errorf("load the image from %s: %w", archivePath, explained(err))
	}
	return nil
}

// LoadImageFrom is LoadImage for an archive that is just being written.
func LoadImageFrom(ctx context.Context, archive io.Reader) error {
	if _, err := podmanFrom(ctx, archive, loadLimit, "load", "--quiet"); err != nil {
		return fmt.Errorf("load the image: %w", explained(err))
	}
	return nil
}
