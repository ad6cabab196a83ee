package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Preparation describes how a snapshot becomes one that the hosts of a running site can be restored from.
type Preparation struct {
	// From is the snapshot, and To the file that is made. It must not be there.
	From, To string
	Now      time.Time
	Log      io.Writer
}

// The member in which a snapshot is changed. The restore gives the file the members of the site.
const (
	scratchName = "scratch"
	scratchPeer = "http://localhost:2380"
)

// Prepare writes a copy of a snapshot without what would begin by itself on hosts that run, and returns
// what it changed. The file is there once it is whole; the snapshot stays as it is.
func Prepare(ctx context.Context, p Preparation) (report Report, err error) {
	if host.Exists(p.To) {
		return report, fmt.Errorf("%s is there already: name another file, or remove it", p.To)
	}
	ctx, cancel := context.WithTimeout(ctx, scrubLimit)
	defer cancel()
	if p.To, err = filepath.Abs(p.To); err != nil { // the etcd that changes the data runs in another folder
		return report, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(p.To), ".holdfast-restore-")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "prepared.db")
	if _, err := host.Run(ctx, host.Command("etcdutl", "snapshot", "restore", p.From, "--data-dir", data, "--name", scratchName,
		"--initial-advertise-peer-urls", scratchPeer, "--initial-cluster", scratchName+"="+scratchPeer)); err != nil {
		return report, fmt.Errorf("read the snapshot %s: %w", p.From, err)
	}
	if report, err = p.change(ctx, data, file); err != nil {
		return report, err
	}
	if report.Kept == 0 {
		return report, fmt.Errorf("%s has no object of a cluster: it is no backup of a site", p.From)
	}
	if err := os.Rename(file, p.To); err != nil {
		return report, err
	}
	return report, host.SyncDir(filepath.Dir(p.To))
}

// change starts an etcd over data that only this process reaches, changes them, and writes a snapshot.
func (p Preparation) change(ctx context.Context, data, file string) (Report, error) {
	return change(ctx, etcd.Scratch{DataDir: data, Name: scratchName, PeerURL: scratchPeer, Log: p.Log}, Options{Now: p.Now}, p.Now,
		func(e *etcd.Alone) error { return write(ctx, e, file) })
}

// write writes a snapshot to a new file, durably.
func write(ctx context.Context, e *etcd.Alone, file string) (err error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, state.SecretFileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := e.Snapshot(ctx, out); err != nil {
		return err
	}
	return out.Sync()
}

// lookInPlace is look for a restore in place.
func (s *scrubber) lookInPlace(rule string, value []byte) (restore.Fate, []byte, error) {
	if rule == restore.Versions || rule == restore.Infrastructure {
		return s.lookAtCustomInPlace(rule, value)
	}
	object, err := decode(value)
	if err != nil {
		return "", nil, fmt.Errorf("an object that cannot be read: %w", err)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return s.report.PodInPlace(o), value, nil
	case *batchv1.Job:
		if rule == restore.Steps {
			return restore.StepInPlace(o), value, nil
		}
	case *corev1.Node:
		if !s.report.NodeInPlace(o) {
			return restore.Keep, value, nil
		}
		now, err := encode(o)
		return restore.Change, now, err
	}
	return s.look(value)
}

func (s *scrubber) lookAtCustomInPlace(rule string, value []byte) (restore.Fate, []byte, error) {
	var object map[string]any
	if err := json.Unmarshal(value, &object); err != nil {
		return "", nil, fmt.Errorf("an object that cannot be read: %w", err)
	}
	changed := false
	if rule == restore.Versions {
		changed = s.report.VersionInPlace(object, s.inPlace)
	} else {
		changed = s.report.InfrastructureInPlace(object)
	}
	if !changed {
		return restore.Keep, value, nil
	}
	now, err := json.Marshal(object)
	return restore.Change, now, err
}
