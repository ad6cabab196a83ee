package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/model/state"
)

// adminKubeconfig is the kubeconfig of kubeadm on every control plane.
const adminKubeconfig = state.AdminKubeconfig

// hostKubeconfig returns the default kubeconfig of this host: the administrator's
// or, if somebody removed that file, the agent's, which has fewer rights.
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
