package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// program is the stand-in, which also knows the form of etcd's data: it is
// built with etcd's own packages, of etcd's version.
var program = "/usr/local/bin/etcd-standin"

// exitRefused is the program's exit code for a copy that it must not touch.
const exitRefused = 3

// Errors of a copy that is not as it has to be.
var (
	// ErrRuns is returned for a copy that an etcd has open.
	ErrRuns = errors.New("etcd runs")
	// ErrLogShort is returned for a copy whose log lost its end: it must not be
	// started.
	ErrLogShort = errors.New("the log lost its end")
)

// Inspect examines the copy of an etcd that is down, and changes nothing.
func Inspect(ctx context.Context, dataDir string) (state.EtcdData, error) {
	out, err := host.Run(ctx, host.Command(program, "inspect", "-data-dir", dataDir))
	switch {
	case host.ExitCode(err) == exitRefused:
		return state.EtcdData{}, fmt.Errorf("examine %s: %w: %w", dataDir, ErrRuns, err)
	case err != nil:
		return state.EtcdData{}, fmt.Errorf("examine %s: %w", dataDir, err)
	}
	var data state.EtcdData
	if err := json.Unmarshal(out, &data); err != nil {
		return state.EtcdData{}, fmt.Errorf("examine %s: %w", dataDir, err)
	}
	return data, nil
}

// Settle writes down how far the database of an etcd that is down proves its
// log to be committed. It belongs before every plain start.
func Settle(ctx context.Context, dataDir string) error {
	_, err := host.Run(ctx, host.Command(program, "settle", "-data-dir", dataDir))
	if re, ok := errors.AsType[*host.RunError](err); ok && bytes.Contains([]byte(re.Output), []byte(ErrLogShort.Error())) {
		return fmt.Errorf("settle %s: %w: %w", dataDir, ErrLogShort, err)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", dataDir, err)
	}
	return nil
}

// Locked reports whether an etcd has the copy open. It asks with a shared lock
// that it gives back at once, so that an etcd that starts meanwhile loses 50 ms
// at most: it tries again that soon.
func Locked(dataDir string) (bool, error) {
	f, err := os.Open(filepath.Join(dataDir, "member/snap/db"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether etcd runs: %w", err)
	}
	defer func() { _ = f.Close() }()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	default:
		return false, fmt.Errorf("ask whether etcd runs: lock %s: %w", f.Name(), err)
	}
}

// Empty removes the copy in a data folder and leaves what else lies there. The
// copy disappears in one step, so a power cut leaves a whole copy or none, and
// running it again ends what was begun.
func Empty(dataDir string) error {
	running, err := Locked(dataDir)
	if err != nil {
		return fmt.Errorf("empty %s: %w", dataDir, err)
	}
	if running {
		return fmt.Errorf("empty %s: %w; stop it first", dataDir, ErrRuns)
	}
	member, doomed := filepath.Join(dataDir, "member"), filepath.Join(dataDir, "member.emptying")
	if err := os.RemoveAll(doomed); err != nil {
		return fmt.Errorf("empty %s: %w", dataDir, err)
	}
	err = os.Rename(member, doomed)
	if errors.Is(err, fs.ErrNotExist) {
		return syncExisting(dataDir)
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", dataDir, err)
	}
	if err := host.SyncDir(dataDir); err != nil {
		return fmt.Errorf("empty %s: %w", dataDir, err)
	}
	if err := os.RemoveAll(doomed); err != nil {
		return fmt.Errorf("empty %s: %w", dataDir, err)
	}
	return host.SyncDir(dataDir)
}

// syncExisting makes a folder durable that may not be there at all.
func syncExisting(dir string) error {
	if err := host.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("empty %s: %w", dir, err)
	}
	return nil
}
