package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/model/state"
)

// adminKubeconfig is kubeadm's, on every control plane.
const adminKubeconfig = state.AdminKubeconfig

// hostKubeconfig is how the cluster of this host is reached where nobody says how:
// as its administrator and, where somebody took that file away, as its agent, which
// may less.
func hostKubeconfig() string { return kubeconfigOf("/") }

func kubeconfigOf(root string) string {
	if _, err := os.Stat(filepath.Join(root, adminKubeconfig)); !errors.Is(err, fs.ErrNotExist) {
		return adminKubeconfig
	}
	if _, err := os.Stat(filepath.Join(root, state.AgentKubeconfig)); err != nil {
		return adminKubeconfig
	}
	return state.AgentKubeconfig
}
