package etcd

import (
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

// program is the stand-in. It also reads etcd's data: it is built with etcd's
// own packages, of etcd's version.
var program = "/usr/local/bin/etcd-standin"

// Exit codes of the program (payload/standin/README.md).
const (
	exitRefused  = 3 // it must not touch these data
	exitLogShort = 5
)

// Errors about the data of an etcd.
var (
	// ErrRuns is returned if an etcd has the data open.
	ErrRuns = errors.New("etcd runs")
	// ErrLogShort is returned if the log lost its end: etcd must not be started
	// on such data.
	ErrLogShort = errors.New("the log lost its end")
)

// Inspect examines the data of an etcd that is down, and changes nothing.
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

// Settle records how much of the log is committed, as far as the database of an
// etcd that is down proves it. Call it before every plain start.
func Settle(ctx context.Context, dataDir string) error { return settle(ctx, "settle", dataDir) }

func settle(ctx context.Context, how, dataDir string) error {
	_, err := host.Run(ctx, host.Command(program, how, "-data-dir", dataDir))
	if host.ExitCode(err) == exitLogShort {
		return fmt.Errorf("settle %s: %w: %w", dataDir, ErrLogShort, err)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", dataDir, err)
	}
	return nil
}

// Locked reports whether an etcd has the data open. It takes a shared lock and
// releases it at once. An etcd that starts meanwhile loses at most 50 ms: it
// tries again after that.
func Locked(dataDir string) (bool, error) {
	free, err := hold(dataDir)
	if errors.Is(err, ErrRuns) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	free()
	return false, nil
}

// hold takes a shared lock on the data of an etcd that is down. An etcd that starts takes an exclusive
// one before it reads or writes anything, so it waits until the lock is given free.
func hold(dataDir string) (free func(), err error) {
	f, err := os.Open(filepath.Join(dataDir, "member/snap/db"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask whether etcd runs: %w", err)
	}
	free = func() { _ = f.Close() }
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		free()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrRuns
		}
		return nil, fmt.Errorf("ask whether etcd runs: lock %s: %w", f.Name(), err)
	}
	return free, nil
}

// Empty removes etcd's data from a data folder and leaves other files there.
// The data disappear in one step, so a power cut leaves all of them or none; a
// repeated call finishes what was begun.
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

// syncExisting makes a folder durable; the folder may be missing.
func syncExisting(dir string) error {
	if err := host.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("empty %s: %w", dir, err)
	}
	return nil
}
