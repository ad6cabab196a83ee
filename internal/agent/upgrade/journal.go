package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// Folder holds what a host remembers of its way to another release.
const Folder = "/var/lib/holdfast/upgrade"

// The files in it. The two of the journal take turns.
const (
	journalFile = "journal-%d.json"
	lockFile    = "lock"
	// downFile is there from before the daemons end until all of them run again.
	downFile = "down"
	// hangsFile has a byte for each time at which the agent was killed because it hung.
	hangsFile = "hangs"
)

// Store is the folder.
type Store struct {
	// Root is "/" except in tests.
	Root string
	// WriteFile replaces a file atomically and durably, Remove deletes one durably.
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	Remove    func(path string) error
}

// NewStore returns the folder of the host below root.
func NewStore(root string) Store {
	return Store{Root: root, WriteFile: host.WriteFileAtomic, Remove: remove}
}

// remove deletes a file durably. One that is not there is no error.
func remove(path string) error {
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

func (s Store) path(name string) string { return filepath.Join(s.Root, Folder, name) }

// Read returns the journal and its number. The error is parachute.ErrUnreadable if no
// file of it is whole.
func (s Store) Read() (parachute.Journal, int, error) {
	var files [2][]byte
	for i := range files {
		data, err := os.ReadFile(s.path(fmt.Sprintf(journalFile, i)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return parachute.Journal{}, 0, fmt.Errorf("read the journal of the upgrade: %w", err)
		}
		files[i] = data
	}
	return parachute.Read(files)
}

// Write makes a journal durable, over the older of the two files. On a full disk, where
// no file can be added, it writes into that file: a cut then tears it, and the other one
// is whole.
func (s Store) Write(j parachute.Journal, number int) error {
	path, data := s.path(fmt.Sprintf(journalFile, number%2)), parachute.Encode(j, number)
	err := s.WriteFile(path, data, journalMode)
	if errors.Is(err, unix.ENOSPC) {
		err = overwrite(path, data)
	}
	if err != nil {
		return fmt.Errorf("write the journal of the upgrade: %w", err)
	}
	return nil
}

const journalMode = 0o600

// overwrite writes into a file, durably.
func overwrite(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, journalMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return errors.Join(f.Truncate(int64(len(data))), f.Sync())
}

// ErrBusy says that another program decides by the journal right now.
var ErrBusy = errors.New("another program is at the journal of the upgrade: try again")

// Lock keeps other programs from the journal until unlock is called.
func (s Store) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.path(""), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // it was opened for the lock alone
}

// Down reports whether the daemons of this host were ended for a way, and were not seen
// to run since.
func (s Store) Down() bool { return host.Exists(s.path(downFile)) }

// SetDown notes it, durably.
func (s Store) SetDown(down bool) error {
	switch is := s.Down(); {
	case down && !is:
		return s.WriteFile(s.path(downFile), nil, 0o600)
	case !down && is:
		return s.Remove(s.path(downFile))
	}
	return nil
}

// Hangs counts how often the agent was killed because it hung, since Forget.
func (s Store) Hangs() (int, error) {
	info, err := os.Stat(s.path(hangsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(info.Size()), nil
}

// Forget begins to count hangs anew.
func (s Store) Forget() error { return s.Remove(s.path(hangsFile)) }
