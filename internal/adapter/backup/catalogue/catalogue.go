// Package catalogue keeps the backups of a host, each in a folder of its own, which appears
// and disappears by one rename. It is the only writer of backup.Dir, and never touches a
// file there that it does not know.
package catalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// part begins the names of folders that are not complete yet, or are being removed.
const part = ".part-"

// Catalogue is the catalogue in the folder Dir.
type Catalogue struct{ Dir string }

// Broken is a backup whose entry cannot be read.
type Broken struct {
	ID  string
	Err error
}

// List returns the entries, the oldest first, and the folders whose entry cannot be read.
func (c Catalogue) List() ([]backup.Entry, []Broken, error) {
	found, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list backups: %w", err)
	}
	var entries []backup.Entry
	var broken []Broken
	for _, f := range found {
		if !f.IsDir() || !backup.ValidID(f.Name()) {
			continue
		}
		e, err := c.Entry(f.Name())
		if err != nil {
			broken = append(broken, Broken{ID: f.Name(), Err: err})
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b backup.Entry) int { return strings.Compare(a.ID, b.ID) })
	return entries, broken, nil
}

// Newest returns the time at which the newest good backup was taken; zero if there is none. Those
// of a clock that was ahead do not count.
func (c Catalogue) Newest(now time.Time) (time.Time, error) {
	entries, _, err := c.List()
	var newest time.Time
	for _, e := range entries {
		if e.Good && !backup.Ahead(e.Taken, now) && e.Taken.After(newest) {
			newest = e.Taken
		}
	}
	return newest, err
}

// Last is Newest as a fact: unknown if the catalogue cannot be read.
func (c Catalogue) Last(now time.Time) state.Fact[time.Time] {
	newest, err := c.Newest(now)
	return state.Fact[time.Time]{Known: err == nil, Value: newest}
}

// Entry reads the entry of a backup. The entry is not good if the archive does not exist or
// has another size than the entry says: other programs have restored from empty files.
func (c Catalogue) Entry(id string) (backup.Entry, error) {
	if !backup.ValidID(id) {
		return backup.Entry{}, fmt.Errorf("backup %q: %w", id, fs.ErrNotExist)
	}
	text, err := os.ReadFile(c.at(id, backup.EntryName))
	if err != nil {
		return backup.Entry{}, fmt.Errorf("backup %s: %w", id, err)
	}
	e, err := backup.DecodeEntry(text)
	if err != nil {
		return backup.Entry{}, fmt.Errorf("backup %s: %w", id, err)
	}
	if e.ID != id {
		return backup.Entry{}, fmt.Errorf("backup %s: its entry is of %s", id, e.ID)
	}
	info, err := os.Stat(c.Archive(id))
	switch {
	case err != nil:
		e.Checks = append(e.Checks, backup.Check{Name: "file", Says: err.Error()})
	case info.Size() != e.File.Size:
		e.Checks = append(e.Checks, backup.Check{Name: "file", Says: fmt.Sprintf("the archive has %d bytes, and had %d", info.Size(), e.File.Size)})
	}
	return e.Judge(), nil
}

// Archive returns the path of the archive of a backup.
func (c Catalogue) Archive(id string) string { return c.at(id, backup.ArchiveName(id)) }

func (c Catalogue) at(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

// Lock keeps other programs from working in the catalogue until unlock is called. It does not
// wait: it returns an error if another one has the lock.
func (c Catalogue) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.at(".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another program takes a backup on this host: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// Sweep removes the rest of runs that were cut off. The caller must hold the lock.
func (c Catalogue) Sweep() error {
	names, err := c.parts()
	for _, name := range names {
		if err = os.RemoveAll(c.at(name)); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("remove what an earlier backup left: %w", err)
	}
	return nil
}

// Remains reports whether something lies there that Sweep would remove. While a run is at work, that
// may be what it writes.
func (c Catalogue) Remains() (bool, error) {
	names, err := c.parts()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(names) > 0, err
}

// parts lists the folders that are not complete.
func (c Catalogue) parts() ([]string, error) {
	found, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range found {
		if strings.HasPrefix(f.Name(), part) {
			out = append(out, f.Name())
		}
	}
	return out, nil
}

// Begin makes an empty folder in which a backup, or its encrypted copy, is made.
func (c Catalogue) Begin(id string) (dir string, err error) {
	dir = c.at(part + id)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// Abandon removes the folder of Begin.
func (c Catalogue) Abandon(id string) error { return os.RemoveAll(c.at(part + id)) }

// Publish writes the entry beside the archive in the folder of Begin, and renames the folder,
// by which the backup appears. Before that the caller has the archive on the disk, and
// nothing else in the folder.
func (c Catalogue) Publish(e backup.Entry) error {
	dir := c.at(part + e.ID)
	text, err := e.Encode()
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(filepath.Join(dir, backup.EntryName), text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(dir, c.at(e.ID)); err != nil {
		return fmt.Errorf("publish backup %s: %w", e.ID, err)
	}
	return host.SyncDir(c.Dir)
}

// Update replaces the entry of a backup that is in the catalogue.
func (c Catalogue) Update(e backup.Entry) error {
	if _, err := os.Stat(c.at(e.ID)); err != nil {
		return fmt.Errorf("backup %s: %w", e.ID, err)
	}
	text, err := e.Encode()
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(c.at(e.ID, backup.EntryName), text, 0o600)
}

// Remove removes a backup, which disappears by one rename. It is no error if there is none.
func (c Catalogue) Remove(id string) error {
	if !backup.ValidID(id) {
		return fmt.Errorf("%q is no backup", id)
	}
	gone := c.at(part + "gone-" + id)
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	err := os.Rename(c.at(id), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove backup %s: %w", id, err)
	}
	if err := host.SyncDir(c.Dir); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}
