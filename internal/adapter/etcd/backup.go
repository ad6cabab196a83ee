package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// unfinished is the suffix of a backup's folder until the backup is complete.
const unfinished = ".unfinished"

// chunk is the number of bytes that are copied and made durable between two checks
// of the context.
const chunk = 8 << 20

// dated is the name of a backup's folder.
const dated = "20060102T150405.000Z"

// Backup copies the data of an etcd that is down into a dated folder below
// backupDir, and then keeps only the newest backups. It returns the folder, or "" if
// there was nothing to copy. Whoever empties the data next sets them aside if it fails.
func Backup(ctx context.Context, dataDir, backupDir string, keep int, maxBytes int64) (string, error) {
	return backup(ctx, dataDir, backupDir, keep, maxBytes, backupDir, aside(dataDir))
}

// backup is Backup for the backups in some places, of which backupDir is one.
func backup(ctx context.Context, dataDir, backupDir string, keep int, maxBytes int64, places ...string) (string, error) {
	member := filepath.Join(dataDir, "member")
	files, size, err := measure(member)
	if err != nil || len(files) == 0 {
		return "", wrap(dataDir, err)
	}
	if err := os.MkdirAll(backupDir, 0o700); err != nil {
		return "", wrap(dataDir, err)
	}
	if size > maxBytes {
		return "", wrap(dataDir, fmt.Errorf("skipped: it holds %d bytes, more than the %d that are allowed", size, maxBytes))
	}
	if err := prune(everyOne, places...); err != nil { // a copy may be cut: those of before stay until it is whole
		return "", wrap(dataDir, err)
	}
	err = room(backupDir, size)
	if err != nil { // the oldest ones make room, and one stays
		err = errors.Join(prune(max(keep-1, 1), places...), room(backupDir, size))
	}
	if err != nil {
		return "", wrap(dataDir, err)
	}
	dir := filepath.Join(backupDir, time.Now().UTC().Format(dated))
	if err := copyAll(ctx, files, dataDir, dir+unfinished); err != nil {
		return "", errors.Join(wrap(dataDir, err), os.RemoveAll(dir+unfinished))
	}
	if err := os.Rename(dir+unfinished, dir); err != nil {
		return "", wrap(dataDir, err)
	}
	if err := host.SyncDir(backupDir); err != nil {
		return "", wrap(dataDir, err)
	}
	// The copy is whole, whether or not older ones can be removed: the next one tries that again.
	_ = prune(keep, places...)
	return dir, nil
}

func wrap(dataDir string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("back up %s: %w", dataDir, err)
}

// measure lists the files below a folder and their total size.
func measure(dir string) (files []string, size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files, size = append(files, path), size+info.Size()
		return nil
	})
	return files, size, err
}

// room returns an error unless a backup fits twice: etcd needs the disk space
// more.
func room(dir string, size int64) error {
	free, err := host.FreeSpace(dir)
	if err != nil {
		return err
	}
	if int64(free) < 2*size { //nolint:gosec // no file system is larger
		return fmt.Errorf("skipped: %d bytes are free in %s, want %d", free, dir, 2*size)
	}
	return nil
}

// everyOne has prune keep all finished backups.
const everyOne = math.MaxInt

// prune removes unfinished backups, and all but the newest finished ones of all folders. A folder
// may be missing.
func prune(keep int, dirs ...string) error {
	var whole []string
	var failed error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err) // the other folder is not to fill up for that
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch _, err := time.Parse(dated, strings.TrimSuffix(e.Name(), unfinished)); {
			case err != nil: // not ours
			case strings.HasSuffix(e.Name(), unfinished):
				if err := os.RemoveAll(path); err != nil {
					return err
				}
			default:
				whole = append(whole, path)
			}
		}
	}
	slices.SortFunc(whole, func(a, b string) int { return cmp.Compare(filepath.Base(b), filepath.Base(a)) }) // the newest first
	for _, old := range whole[min(max(keep, 0), len(whole)):] {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	return failed
}

// copyAll copies files and makes the copy durable, its folders with it. It does not
// sync the file system: no context ends that, and it waits for what others wrote.
func copyAll(ctx context.Context, files []string, from, to string) error {
	folders := map[string]bool{filepath.Dir(filepath.Dir(to)): true} // the folder of all backups may be new
	for _, path := range files {
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := copyFile(ctx, path, target); err != nil {
			return err
		}
		for dir := filepath.Dir(target); len(dir) >= len(to); dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	for dir := range folders {
		if err := errors.Join(context.Cause(ctx), syncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// These make a copy durable. A test replaces them.
var (
	syncFile = (*os.File).Sync
	syncDir  = host.SyncDir
)

// copyFile copies in chunks and makes each one durable, so that it stops when the
// context ends: a disk takes what is written to memory for as long as it likes.
func copyFile(ctx context.Context, from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		_, err := io.CopyN(out, in, chunk)
		if more = err == nil; !more && !errors.Is(err, io.EOF) {
			return err
		}
		if err := syncFile(out); err != nil {
			return err
		}
	}
	return nil
}
