package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// kubeletFolder is where kubelet keeps what it remembers.
const kubeletFolder = "/var/lib/kubelet"

// checkpoints are kubelet's memories that keep it from starting once they are torn. It
// asks a person to delete such a file (docs/facts/upgrades.md#what-kubelet-remembers, K1). It goes on without that
// of device plugins, so that one is not touched.
var checkpoints = []string{"cpu_manager_state", "memory_manager_state", "allocated_pods_state", "actuated_pods_state", "dra_manager_state"}

// setAside is added to the name of a torn file. Only the last one of each is kept.
const setAside = ".torn"

// mendCheckpoints moves away what a power cut has left of a memory of kubelet, so that
// kubelet starts without it. It says what it moved. A file that it cannot read stays, and
// one that is whole JSON does too: whether its sum is right only kubelet can tell.
func mendCheckpoints(root string) (said string, err error) {
	var moved []string
	var errs []error
	for _, name := range checkpoints {
		path := filepath.Join(root, kubeletFolder, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && json.Valid(data) {
			continue
		}
		if err == nil {
			err = os.Rename(path, path+setAside)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("move a torn checkpoint of kubelet away: %w", err))
			continue
		}
		moved = append(moved, path)
	}
	if len(moved) == 0 {
		return "", errors.Join(errs...)
	}
	errs = append(errs, host.SyncDir(filepath.Join(root, kubeletFolder)))
	return fmt.Sprintf("a power cut has torn %s: moved to the same name with %s, kubelet starts without", strings.Join(moved, ", "), setAside), errors.Join(errs...)
}
