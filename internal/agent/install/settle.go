package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// leftovers are the files that only an installation needs: kubeadm's
// configuration and patches, the access of kubeadm and kubelet to the cluster before
// the host had its certificate, the host's own token, the machine configuration that it
// began with, and the objects of the cluster as they were applied, accounts of BMCs
// among them; on the first host of a restored site also the snapshot, with every Secret of
// the former etcd.
var leftovers = []string{
	kubeadmConfig, kubeadm.PatchesDir, kubeadm.AccessPath, "/etc/kubernetes/bootstrap-kubelet.conf", ownTokenPath, hostconfig.FirstPath, renderhost.ManifestDir,
	filepath.Dir(site.RestorePath),
}

// Settle removes from an installed host what only its installation needed,
// secrets above all, and returns what it removed. Earlier builds left these, so
// the agent calls it at each start.
func Settle() ([]string, error) { return settle("/") }

func settle(root string) ([]string, error) {
	var took []string
	var errs []error
	for _, path := range leftovers {
		place := filepath.Join(root, path)
		if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(place); err != nil {
			errs = append(errs, err)
			continue
		}
		took = append(took, path)
	}
	changed, err := settleSite(filepath.Join(root, site.Path))
	if changed {
		took = append(took, "secrets in "+site.Path)
	}
	return took, errors.Join(append(errs, err)...)
}

func settleSite(path string) (bool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", site.Path, err)
	}
	settled, err := s.Settled().Marshal()
	if err != nil || bytes.Equal(settled, data) {
		return false, err
	}
	return true, host.WriteFileAtomic(path, settled, state.SecretFileMode)
}
