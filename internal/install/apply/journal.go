package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// stateDir holds the journal and, while a run is in progress, the configuration
// that it applies. So a run that was cut can be finished without the server of
// the configuration.
const (
	stateDir    = "/var/lib/holdfast/apply"
	journalFile = stateDir + "/state.json"
	configFile  = stateDir + "/config.json"
	lockFile    = stateDir + "/lock"
)

// readJournal returns the records of earlier runs. An unreadable journal counts
// as a run that was cut: the next one then checks more and skips nothing.
func (h *Host) readJournal() (plan.Journal, error) {
	path, err := h.at(journalFile)
	if err != nil {
		return plan.Journal{}, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Journal{}, nil
	}
	if err != nil {
		return plan.Journal{}, fmt.Errorf("read the journal: %w", err)
	}
	return parseJournal(raw), nil
}

func parseJournal(raw []byte) plan.Journal {
	var j plan.Journal
	if json.Unmarshal(raw, &j) != nil {
		return plan.Journal{InProgress: "unknown"}
	}
	return j
}

func (h *Host) writeJournal(j plan.Journal) error {
	raw, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return h.onPath(journalFile, func(path string) error {
		if err := h.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
			return fmt.Errorf("write the journal: %w", err)
		}
		return nil
	})
}

// saveConfig stores the configuration for a run that may be cut. It holds every
// secret of the host.
func (h *Host) saveConfig(cfg types.Config) error {
	raw, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	return h.onPath(configFile, func(path string) error { return h.WriteFile(path, raw, 0o600) })
}

// savedConfig returns the configuration of the run that was cut, if it exists
// and is whole.
func (h *Host) savedConfig(j plan.Journal) (types.Config, bool) {
	path, err := h.at(configFile)
	if err != nil {
		return types.Config{}, false
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return types.Config{}, false
	}
	cfg, err := ignition.Parse(raw)
	if err != nil {
		return types.Config{}, false
	}
	d, err := plan.FromConfig(cfg)
	return cfg, err == nil && d.Hash == j.InProgress
}

// lock keeps other runs from the host until the returned function is called.
// The kernel drops the lock when the process ends.
func (h *Host) lock() (func(), error) {
	path, err := h.at(lockFile)
	if err != nil {
		return nil, err
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another run of holdfast-agent apply is in progress (lock %s): %w", lockFile, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// privateDir creates the directory of the state, closed to others. Its parents
// are shared and stay open.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// sweep removes files that a killed run left beside the journal and that nobody
// needs any more: they may hold every secret of the host.
func (h *Host) sweep(j plan.Journal) error {
	var left []string
	for _, file := range []string{journalFile, configFile} {
		place, err := h.at(file)
		if err != nil {
			return err
		}
		left = append(left, h.leftovers(file, place)...)
		if _, err := os.Lstat(place); err == nil && file == configFile && j.InProgress == "" {
			left = append(left, file)
		}
	}
	for _, file := range left {
		if err := h.onPath(file, h.Remove); err != nil {
			return err
		}
	}
	return nil
}
