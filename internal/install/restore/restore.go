// Package restore makes the data of a backup those of a blank host's etcd, before the first
// control plane of a site starts. decide/restore says which keys are left out or changed. The
// package owns etcd's data directory until the control plane starts, and afterwards its own folder
// in it.
//
// The power may be cut at any line: before the last rename the data directory has no data, and
// after it the data are whole.
package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// workName is the folder in etcd's data directory in which a restore works. It is there
	// because a rename needs the same file system.
	workName = "holdfast-restore"
	// memberName is etcd's own folder in its data directory.
	memberName = "member"
	// reportName is the file that lists what a restore left out and found.
	reportName = "report.json"
)

// Options describes a restore.
type Options struct {
	// Snapshot is the file with the snapshot of etcd, and SHA256 its digest in hex.
	Snapshot, SHA256 string
	// DataDir is etcd's data directory.
	DataDir string
	// Name and PeerURL are those of the first member.
	Name, PeerURL string
	// Token makes the ids of this life differ from those of every other one.
	Token string
	// Bump is added to the revision of the snapshot, so that clients that remember a former
	// revision read everything again (decide/restore.Bump).
	Bump int64
	// ControlPlanes are the names that control planes of this life have, as far as they are known:
	// none of them is out, whatever happened to a host of that name before.
	ControlPlanes []string
	Now           time.Time
	Log           io.Writer
}

// Report describes what a restore did.
type Report struct {
	SHA256 string `json:"sha256"`
	// Token is that of the life that the restore began: two restores from one backup have two.
	Token string `json:"token,omitempty"`
	// Dropped counts the keys that were left out by each rule, Changed those that were
	// changed.
	Dropped map[string]int `json:"dropped,omitempty"`
	Changed map[string]int `json:"changed,omitempty"`
	Kept    int            `json:"kept"`
	restore.Found
}

// Run restores the snapshot, unless an earlier run did so, and returns the report.
func Run(ctx context.Context, o Options) (Report, error) {
	w := work{Options: o, dir: filepath.Join(o.DataDir, workName)}
	if r, done, err := w.done(); err != nil || done {
		return r, err
	}
	if err := w.compare(ctx); err != nil {
		return Report{}, err
	}
	if err := w.unpack(ctx); err != nil {
		return Report{}, err
	}
	report, err := w.scrub(ctx)
	if err != nil {
		return Report{}, err
	}
	report.SHA256, report.Token = o.SHA256, o.Token
	return report, w.place(realDisk, report)
}

// work is one restore.
type work struct {
	Options
	dir string
}

// data is the folder in which etcd's data lie until they are whole.
func (w work) data() string { return filepath.Join(w.dir, "data") }

// done returns the report of this restore if it has ended. Data that it did not bring are an error:
// nothing is overwritten. Those of another restore of the same snapshot have been written to since.
func (w work) done() (r Report, is bool, err error) {
	if !host.Exists(filepath.Join(w.DataDir, memberName)) {
		return Report{}, false, nil
	}
	r, err = readReport(filepath.Join(w.dir, reportName))
	if err != nil || r.SHA256 != w.SHA256 || r.Token != w.Token {
		what := "another etcd"
		if err == nil && r.SHA256 == w.SHA256 {
			what = "an earlier restore from the same backup"
		}
		return Report{}, false, notBlank(w.DataDir, what, "a restore")
	}
	return r, true, nil
}

// Blank returns an error if etcd has data in its data directory. begins names what needs a host that
// has none.
func Blank(dataDir, begins string) error {
	if !host.Exists(filepath.Join(dataDir, memberName)) {
		return nil
	}
	return notBlank(dataDir, "another etcd", begins)
}

func notBlank(dataDir, of, begins string) error {
	return fmt.Errorf("%s has data of %s: %s begins on a blank host, "+
		"so move them away if nobody needs them (mv %[1]s/%[4]s %[1]s-before)", dataDir, of, begins, memberName)
}

func readReport(path string) (r Report, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// compare checks that the snapshot is the one that is meant.
func (w work) compare(ctx context.Context) error {
	got, err := archive.Digest(ctx, w.Snapshot)
	if err != nil {
		return err
	}
	if got.SHA256 != w.SHA256 {
		return fmt.Errorf("%s is not the snapshot of this restore: its SHA-256 is %s, want %s", w.Snapshot, got.SHA256, w.SHA256)
	}
	return nil
}

// unpack makes a data directory of one member from the snapshot. Revisions from before are marked
// as compacted, so a client that watches from one of them reads everything again.
func (w work) unpack(ctx context.Context) error {
	if err := os.RemoveAll(w.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	_, err := host.Run(ctx, host.Command("etcdutl", "snapshot", "restore", w.Snapshot,
		"--data-dir", w.data(), "--name", w.Name,
		"--initial-advertise-peer-urls", w.PeerURL, "--initial-cluster", w.Name+"="+w.PeerURL,
		"--initial-cluster-token", w.Token,
		"--bump-revision", fmt.Sprint(w.Bump), "--mark-compacted"))
	if err != nil {
		return fmt.Errorf("restore etcd's snapshot: %w", err)
	}
	return nil
}

// scrubLimit bounds the start of etcd and all changes to its data.
const scrubLimit = 10 * time.Minute

// scrub starts an etcd that only this process reaches, changes the data and ends it.
func (w work) scrub(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, scrubLimit)
	defer cancel()
	return change(ctx, etcd.Scratch{DataDir: w.data(), Name: w.Name, PeerURL: w.PeerURL, Log: w.Log}, w.Options, time.Time{},
		func(*etcd.Alone) error { return nil })
}

// change starts an etcd over data that only this process reaches, changes them as scrub does, and ends it.
// then is called with what came of it.
func change(ctx context.Context, over etcd.Scratch, o Options, inPlace time.Time, then func(*etcd.Alone) error) (report Report, err error) {
	e, err := etcd.OpenScratch(ctx, over)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.Disarm(ctx); err != nil {
		return report, err
	}
	if report, err = scrub(ctx, e, o, inPlace); err != nil {
		return report, err
	}
	if err := e.Compact(ctx); err != nil {
		return report, err
	}
	if err := e.Defragment(ctx); err != nil {
		return report, err
	}
	return report, then(e)
}

// disk has the changes that place makes. A test cuts the power between them.
type disk struct {
	write          func(path string, data []byte, mode fs.FileMode) error
	syncFilesystem func(path string) error
	rename         func(from, to string) error
	syncDir        func(dir string) error
	removeAll      func(path string) error
}

// realDisk is that of this host.
var realDisk = disk{host.WriteFileAtomic, host.SyncFilesystem, os.Rename, host.SyncDir, os.RemoveAll}

// place makes the data those of etcd. It writes the report first: if there are data beside the
// report, they are whole.
func (w work) place(on disk, r Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := on.write(filepath.Join(w.dir, reportName), append(text, '\n'), state.SecretFileMode); err != nil {
		return err
	}
	if err := on.syncFilesystem(w.data()); err != nil {
		return err
	}
	if err := on.rename(filepath.Join(w.data(), memberName), filepath.Join(w.DataDir, memberName)); err != nil {
		return err
	}
	if err := on.syncDir(w.DataDir); err != nil {
		return err
	}
	return on.removeAll(w.data())
}
