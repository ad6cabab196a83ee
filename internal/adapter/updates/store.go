// Package updates has the updates of a host's distribution fetched and installed by
// its package manager, and reads whether the distribution wants a reboot.
//
// It owns the folder Folder: the agent writes the request in it, and the unit
// holdfast-patch.service the record. It starts no unit, boots no host, and takes no
// package away. Package decide/updates has the rules. Everything that it does may be cut
// off at any point and done again.
package updates

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a host about its updates.
const (
	Folder      = "/var/lib/holdfast/updates"
	RequestPath = Folder + "/request.json"
	RecordPath  = Folder + "/record.json"
)

// Store is the folder on a host.
type Store struct {
	// Root is "/" except in tests.
	Root string
	// WriteFile replaces a file atomically and durably.
	WriteFile func(path string, data []byte, mode fs.FileMode) error
}

// NewStore returns the folder of the host below root.
func NewStore(root string) Store { return Store{Root: root, WriteFile: host.WriteFileAtomic} }

// Record returns what the unit remembers; nothing before its first run.
func (s Store) Record() (r updates.Record, err error) { return r, s.read(RecordPath, &r) }

// PutRecord makes it durable.
func (s Store) PutRecord(r updates.Record) error { return s.write(RecordPath, r) }

// Request returns what the agent has asked for last.
func (s Store) Request() (r updates.Request, err error) { return r, s.read(RequestPath, &r) }

// PutRequest makes it durable.
func (s Store) PutRequest(r updates.Request) error { return s.write(RequestPath, r) }

func (s Store) read(path string, to any) error {
	data, err := os.ReadFile(filepath.Join(s.Root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (s Store) write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.WriteFile(filepath.Join(s.Root, path), append(data, '\n'), state.DefaultFileMode)
}
