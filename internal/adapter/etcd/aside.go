package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// aside is the folder beside etcd's data for data that were set aside where the backups lie on another
// file system. etcd reads only member there.
func aside(dataDir string) string { return filepath.Join(dataDir, "given-up") }

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
