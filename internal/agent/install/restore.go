package install

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/joining"
	restoring "github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/install/restore"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// takeBackup waits for the snapshot of the backup from which this site is restored, and
// makes it the data of this host's etcd.
func (r *run) takeBackup(ctx context.Context) error {
	path := filepath.Join(r.root, site.RestorePath)
	err := r.poll(ctx, time.Second, func(context.Context) (bool, string, error) {
		return host.Exists(path), "copy restore/etcd.db of the install directory to " + site.RestorePath + " on this host", nil
	})
	if err != nil {
		return err
	}
	// The wait may have lasted for hours, and somebody may have switched a former host on.
	err = r.poll(ctx, time.Second, func(ctx context.Context) (bool, string, error) {
		what, err := r.serves(ctx)
		return what == "" && err == nil, what + ": switch all hosts of the former site off first. Two sites with its authorities would answer at the same names", err
	})
	if err != nil {
		return err
	}
	report, err := restore.Run(ctx, restore.Options{
		Snapshot: path, SHA256: r.Site.Restore.SHA256, DataDir: filepath.Join(r.root, state.EtcdDataDir),
		Name: r.facts.NodeName, PeerURL: etcdpod.PeerURL(r.facts.Addresses[0]), Token: r.Site.Restore.Token, Log: r.Log,
		Bump: restoring.Bump(r.Site.Restore.Revision, r.Now()), Now: r.Now(),
		ControlPlanes: append(joining.Of(r.Site.Config).Named, r.facts.NodeName),
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.Log, "restored backup %s: %d keys kept, %v left out, %v changed\n",
		r.Site.Restore.Backup, report.Kept, report.Dropped, report.Changed)
	return nil
}
