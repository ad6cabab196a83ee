// Package installer makes the files that a site is installed from, in one
// directory that a person keeps: manifests, Ignition per role, kubeconfig. It
// is resumable: what a directory holds already, keys above all, is used again,
// and the same directory always gives the same bytes.
package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/config"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/keys"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// Names of files in the install directory.
const (
	ConfigFile   = "install-config.yaml"
	StateFile    = ".holdfast_state.json"
	MetadataFile = "metadata.json"
	Kubeconfig   = "auth/kubeconfig"
)

// stateVersion is the format of StateFile.
const stateVersion = 1

// Installer makes the files of one directory.
type Installer struct {
	// Dir is the install directory.
	Dir string
	// Now and Random are used once, when a directory gets its keys.
	Now    func() time.Time
	Random io.Reader
}

// saved is the content of StateFile.
type saved struct {
	Version int `json:"version"`
	// Config is the install configuration that the directory was made from;
	// it is kept here because a person may have removed the file.
	Config   string        `json:"config"`
	Identity site.Identity `json:"identity"`
}

// InputError says that a file the person wrote is wrong. Nothing was changed.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// Load returns the site of the directory. The first call for a directory
// generates its keys and saves them; later ones use those.
func (in *Installer) Load() (*site.Site, error) {
	old, err := in.readState()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(in.Dir, ConfigFile))
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && old != nil:
		data = []byte(old.Config)
	case errors.Is(err, fs.ErrNotExist):
		return nil, &InputError{fmt.Errorf("no %s in %s: write one first (see docs/install-config.md)", ConfigFile, in.Dir)}
	default:
		return nil, err
	}
	cfg, err := config.Parse(data)
	if err != nil {
		return nil, &InputError{fmt.Errorf("%s: %w", filepath.Join(in.Dir, ConfigFile), err)}
	}
	identity, err := in.identity(old, cfg, data)
	if err != nil {
		return nil, err
	}
	return &site.Site{Config: cfg, Identity: identity}, nil
}

func (in *Installer) identity(old *saved, cfg *config.InstallConfig, data []byte) (site.Identity, error) {
	next := saved{Version: stateVersion, Config: string(data)}
	if old != nil {
		if err := sameCluster(old, cfg); err != nil {
			return site.Identity{}, err
		}
		if old.Config == next.Config {
			return old.Identity, nil
		}
		next.Identity = old.Identity
	} else {
		made, err := keys.Generate(in.Now(), in.Random)
		if err != nil {
			return site.Identity{}, err
		}
		next.Identity = made
	}
	return next.Identity, in.writeState(next)
}

// sameCluster refuses to use one cluster's keys for another.
func sameCluster(old *saved, cfg *config.InstallConfig) error {
	before, err := config.Parse([]byte(old.Config))
	if err != nil {
		return fmt.Errorf("%s holds a configuration that is no longer valid: %w", StateFile, err)
	}
	if before.ClusterDomain() == cfg.ClusterDomain() {
		return nil
	}
	return &InputError{fmt.Errorf("this directory belongs to cluster %s and %s now names %s: use an empty directory",
		before.ClusterDomain(), ConfigFile, cfg.ClusterDomain())}
}

func (in *Installer) readState() (*saved, error) {
	path := filepath.Join(in.Dir, StateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a new directory is no error
	}
	if err != nil {
		return nil, err
	}
	var s saved
	if err := json.Unmarshal(data, &s); err != nil || s.Version != stateVersion {
		return nil, fmt.Errorf("%s is damaged or of another version: restore it, or start again in an empty directory "+
			"(a running cluster's keys are on its control planes in %s)", path, site.Path)
	}
	return &s, nil
}

func (in *Installer) writeState(s saved) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(filepath.Join(in.Dir, StateFile), append(data, '\n'), state.SecretFileMode)
}
