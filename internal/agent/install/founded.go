package install

import (
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// controlPlaneSteps are the steps that set up a host's control plane.
var controlPlaneSteps = []string{"start control plane", "join control plane"}

// ControlPlaneStands reports whether this host's control plane was set up, if it
// is to have one. The rest of the installation may still be to come: it lasts
// until the last worker is there.
func ControlPlaneStands() bool { return controlPlaneStands(doneDir) }

func controlPlaneStands(done string) bool {
	return slices.ContainsFunc(controlPlaneSteps, func(name string) bool {
		return host.Exists(filepath.Join(done, slug(name)))
	})
}
