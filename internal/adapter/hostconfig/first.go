package hostconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// FirstPath is the file with the configuration that a host is to have before it
// joins. The host's Ignition config brings it, and the installation removes it at its
// end. It holds secrets.
const FirstPath = "/etc/holdfast/first-machine-config.json"

// FirstFile returns that file. Of a configuration it has the name and the spec.
func FirstFile(mc *mcfgv1.MachineConfig) (state.File, error) {
	data, err := json.Marshal(kept(mc))
	if err != nil {
		return state.File{}, fmt.Errorf("write %s: %w", FirstPath, err)
	}
	return state.File{Path: FirstPath, Data: append(data, '\n'), Mode: state.SecretFileMode}, nil
}

// First returns the configuration that came with the Ignition config of the host
// below root, nil if none did.
func First(root string) (*mcfgv1.MachineConfig, error) {
	data, err := os.ReadFile(filepath.Join(root, FirstPath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // most hosts have none
	}
	if err != nil {
		return nil, err
	}
	out := &mcfgv1.MachineConfig{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read %s: %w", FirstPath, err)
	}
	if why := NoName(out.Name); why != "" {
		return nil, fmt.Errorf("read %s: %s", FirstPath, why)
	}
	return out, nil
}

// kept returns what a host keeps of a configuration.
func kept(mc *mcfgv1.MachineConfig) mcfgv1.MachineConfig {
	out := mcfgv1.MachineConfig{Spec: mc.Spec}
	out.Name = mc.Name
	return out
}
