package configserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// File is a Store that outlives the process: a Memory with a copy in a file.
type File struct {
	path string
	mem  *Memory
}

// OpenFile returns the store in a file. It is empty if the file is missing or
// damaged: hosts report again.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, mem: NewMemory()}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open progress of hosts: %w", err)
	}
	var all []state.Progress
	_ = json.Unmarshal(data, &all) // a damaged file counts as empty
	for _, p := range all {
		if err := f.mem.Put(p); err != nil {
			return nil, fmt.Errorf("open progress of hosts: %w", err)
		}
	}
	return f, nil
}

// Put implements Store.
func (f *File) Put(p state.Progress) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.mem.put(p); err != nil {
		return err
	}
	data, err := json.Marshal(f.mem.all())
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(f.path, data, state.SecretFileMode)
}

// All implements Store.
func (f *File) All() ([]state.Progress, error) { return f.mem.All() }
