package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// aside is the folder beside etcd's data for data that were set aside where the backups lie on another
// file system. etcd reads only member there.
func aside(dataDir string) string { return filepath.Join(dataDir, "given-up") }

// replaceable is a file in the folder of data that the protocol would have removed without a copy: the peer
// has all that they acknowledged. Data without it may be the only ones with acknowledged writes.
const replaceable = "replaceable"

// SetAside renames the data of an etcd that is down to a dated folder, which looks like a backup and
// counts as one. That takes neither time nor space, so it serves where a copy could not be made. The
// folder lies below backupDir or, on another file system, beside the data. The disk needs room for
// the data of the new learner unless the data are precious. It returns the folder, or "" if there is
// nothing to set aside.
func SetAside(dataDir, backupDir string, keep int, precious bool) (string, error) {
	failed := func(err error) (string, error) { return "", fmt.Errorf("set %s aside: %w", dataDir, err) }
	running, err := Locked(dataDir)
	if err != nil {
		return failed(err)
	}
	if running {
		return failed(ErrRuns)
	}
	member := filepath.Join(dataDir, "member")
	files, size, err := measure(member)
	if err != nil {
		return failed(err)
	}
	if len(files) == 0 {
		return "", nil
	}
	if err := room(dataDir, size); err != nil && !precious {
		return failed(err)
	}
	var tried []error
	for _, place := range []string{backupDir, aside(dataDir)} {
		dir := filepath.Join(place, time.Now().UTC().Format(dated))
		if err := moveTo(dir, member); err != nil { // another file system, mostly
			tried = append(tried, err)
			continue
		}
		if place == aside(dataDir) && !precious { // without the mark a person removes them
			_ = host.WriteFileAtomic(filepath.Join(dir, replaceable), nil, 0o600)
		}
		_ = prune(max(keep, 1), backupDir, aside(dataDir)) // the data are safe; the next backup tries again
		return dir, nil
	}
	return failed(errors.Join(tried...))
}

// moveTo renames the folder of the data into a new folder, and makes that durable.
func moveTo(dir, member string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(member, filepath.Join(dir, filepath.Base(member))); err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	return errors.Join(host.SyncDir(dir), host.SyncDir(filepath.Dir(dir)), host.SyncDir(filepath.Dir(filepath.Dir(dir))), host.SyncDir(filepath.Dir(member)))
}

// DropAside removes the data that lie beside those of a member and that nobody needs any more, and returns
// their folders. Call it where no keeper runs etcd, once etcd serves: a keeper counts them among its backups.
// Data that may be the only ones with acknowledged writes stay.
func DropAside(dataDir string) ([]string, error) {
	entries, err := os.ReadDir(aside(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		dir := filepath.Join(aside(dataDir), e.Name())
		if _, err := time.Parse(dated, e.Name()); err != nil || !host.Exists(filepath.Join(dir, replaceable)) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, "member")); err != nil { // the mark goes last: whoever is cut off does it again
			return out, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return out, err
		}
		out = append(out, dir)
	}
	if len(out) == len(entries) {
		return out, os.Remove(aside(dataDir))
	}
	return out, nil
}
