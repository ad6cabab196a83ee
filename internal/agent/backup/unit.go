package backup

import (
	"context"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/eviction"
	"github.com/holdfast/holdfast/internal/adapter/host"
	model "github.com/holdfast/holdfast/internal/model/backup"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// ThisUnit returns the unit of this host. The unit's file is written when it is needed first,
// and again when a release brings another one.
func ThisUnit() Unit {
	return Unit{
		Start: func(ctx context.Context, request []byte) error {
			if err := host.RemoveFile(model.StatePath); err != nil { // that of another request
				return err
			}
			if err := host.WriteFileAtomic(model.RequestPath, request, 0o600); err != nil {
				return err
			}
			return host.StartUnit(ctx, renderhost.BackupUnit, renderhost.Backup())
		},
		Stop: func(ctx context.Context) error {
			_, err := host.Run(ctx, host.Command("systemctl", "stop", "--no-block", renderhost.BackupUnit))
			return err
		},
		Works:  func(ctx context.Context) (bool, error) { return host.UnitWorks(ctx, renderhost.BackupUnit) },
		State:  func() (model.State, error) { return host.ReadState[model.State](model.StatePath) },
		Forget: func() error { return host.RemoveFile(model.RequestPath) },
	}
}

// Line returns how many bytes must stay free where backups lie.
func Line() uint64 { return eviction.KeptAt(model.Dir) }

// Free returns how many bytes may still be written where backups lie.
func Free() (uint64, error) {
	for dir := model.Dir; ; dir = filepath.Dir(dir) {
		if host.Exists(dir) {
			return host.FreeSpace(dir)
		}
	}
}
