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

// writeAPIServerFiles writes the files that the API server reads, before kubeadm
// has kubelet start it, and makes the folder of its log.
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

// kubeletSettings is kubelet's configuration. kubeadm writes it, and kubelet does not start before.
const kubeletSettings = "/var/lib/kubelet/config.yaml"

// written lists the files that kubeadm writes so that everybody may read them.
var written = []string{kubeletSettings}

// closeFiles leaves them to root, who alone reads them.
func closeFiles(context.Context) error { return CloseFiles("/") }

// CloseFiles makes the files that kubeadm wrote below root readable for root
// alone. It skips files that do not exist.
func CloseFiles(root string) error {
	for _, path := range written {
		err := os.Chmod(filepath.Join(root, path), state.SecretFileMode)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
