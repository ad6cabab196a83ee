package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// writeAPIServerFiles lays down what the API server reads, before kubeadm has
// kubelet start it, and makes the folder of its log.
func (r *run) writeAPIServerFiles(context.Context) error { return writeAPIServerFiles("/", r.Options) }

func writeAPIServerFiles(root string, o Options) error {
	files, err := apiserver.Files(o.Site)
	if err != nil {
		return err
	}
	if _, err := host.WriteFiles(root, files); err != nil {
		return err
	}
	for _, m := range apiserver.Mounts() {
		dir := filepath.Join(root, m.Path)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// written are files that kubeadm writes for everybody to read.
var written = []string{"/var/lib/kubelet/config.yaml"}

// closeFiles leaves them to root, who is the only one that reads them.
func closeFiles(context.Context) error { return CloseFiles("/") }

// CloseFiles leaves what kubeadm wrote below root to root alone. What is not there
// is left out.
func CloseFiles(root string) error {
	for _, path := range written {
		err := os.Chmod(filepath.Join(root, path), state.SecretFileMode)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
