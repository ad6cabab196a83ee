// Package hostconfig makes a host have its machine configuration: files, units,
// keys and kernel arguments. It keeps what was there before, and puts that back
// when a configuration no longer has it.
//
// It owns the folder Folder. It starts no unit, and has systemd read none: that is
// the agent's part. Everything that it does may be cut off at any point and done
// again.
package hostconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a host about its configurations. They hold secrets.
const (
	Folder      = "/var/lib/holdfast/machineconfig"
	JournalPath = Folder + "/journal.json"
	configsDir  = Folder + "/configs"
	// OriginalsPath has what the host had before a configuration replaced it.
	OriginalsPath = Folder + "/originals.json"
	// ParametersPath has the values of kernel parameters before the way that the host
	// is on.
	ParametersPath = Folder + "/parameters.json"
)

// Store is the disk of a host.
type Store struct {
	// Root is "/" except in tests.
	Root string
	// WriteFile replaces a file atomically and durably, and Remove deletes one.
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	Remove    func(path string) error
}

// NewStore returns the disk of the host below root.
func NewStore(root string) Store {
	return Store{Root: root, WriteFile: host.WriteFileAtomic, Remove: os.Remove}
}

// Journal returns what the host remembers; nothing before its first configuration.
func (s Store) Journal() (hostapply.Journal, error) {
	var j hostapply.Journal
	err := s.read(JournalPath, &j)
	if errors.Is(err, fs.ErrNotExist) {
		return hostapply.Journal{}, nil
	}
	return j, err
}

// PutJournal replaces the journal.
func (s Store) PutJournal(j hostapply.Journal) error { return s.write(JournalPath, j) }

// NoName says why a name is not one that an object of the API has; empty if it is.
// Another one could lead out of the folder.
func NoName(name string) string {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return fmt.Sprintf("%q is not the name of a MachineConfig: %s", name, strings.Join(faults, "; "))
	}
	return ""
}

func configPath(name string) string { return configsDir + "/" + name + ".json" }

// Object returns the object of a configuration that was put.
func (s Store) Object(name string) (*mcfgv1.MachineConfig, error) {
	var mc mcfgv1.MachineConfig
	if err := s.read(configPath(name), &mc); err != nil {
		return nil, err
	}
	return &mc, nil
}

// Config returns a configuration that was put, also if this release would refuse it. The
// empty name is that of a host which has none: its configuration is empty.
func (s Store) Config(name string) (machineconfig.Config, error) {
	if name == "" {
		return machineconfig.Kept(mcfgv1.MachineConfig{})
	}
	mc, err := s.Object(name)
	if err != nil {
		return machineconfig.Config{}, err
	}
	cfg, err := machineconfig.Kept(*mc)
	if err != nil {
		return cfg, fmt.Errorf("read %s: %w", configPath(name), err)
	}
	return cfg, nil
}

// PutConfig keeps a configuration.
func (s Store) PutConfig(mc *mcfgv1.MachineConfig) error {
	if why := NoName(mc.Name); why != "" {
		return errors.New(why)
	}
	return s.write(configPath(mc.Name), kept(mc))
}

// Rest deletes what only a way needs: all configurations but the named ones, and
// the values of kernel parameters.
func (s Store) Rest(names ...string) error {
	if path := filepath.Join(s.Root, ParametersPath); host.Exists(path) {
		if err := s.Remove(path); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.Root, configsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[filepath.Base(configPath(name))] = true
	}
	var errs []error
	for _, e := range entries {
		if !wanted[e.Name()] {
			errs = append(errs, s.Remove(filepath.Join(s.Root, configsDir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Parameters are the values of kernel parameters, by their paths below /proc/sys,
// before the way to a configuration in one boot.
type Parameters struct {
	Target string            `json:"target"`
	Boot   string            `json:"boot"`
	Values map[string]string `json:"values"`
}

// Parameters returns what was put last, or nothing.
func (s Store) Parameters() (Parameters, error) {
	var p Parameters
	err := s.read(ParametersPath, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return Parameters{}, nil
	}
	return p, err
}

// PutParameters keeps values for the way back.
func (s Store) PutParameters(p Parameters) error { return s.write(ParametersPath, p) }

func (s Store) read(path string, into any) error {
	data, err := os.ReadFile(filepath.Join(s.Root, path))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (s Store) write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	full := filepath.Join(s.Root, path)
	if err := errors.Join(privateDir(filepath.Join(s.Root, Folder)), privateDir(filepath.Dir(full))); err != nil {
		return err
	}
	return s.WriteFile(full, append(data, '\n'), state.SecretFileMode)
}

// privateDir creates a folder that only root may enter.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
