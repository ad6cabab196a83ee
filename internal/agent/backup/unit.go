package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	model "github.com/holdfast/holdfast/internal/model/backup"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// ThisUnit returns the unit of this host. The unit's file is written when it is needed first,
// and again when a release brings another one.
func ThisUnit() Unit {
	return Unit{
		Start: func(ctx context.Context, request []byte) error {
			if err := removed(model.StatePath); err != nil { // the state of an earlier request
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
		State:  readState,
		Forget: func() error { return removed(model.RequestPath) },
	}
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func readState() (s model.State, err error) {
	text, err := os.ReadFile(model.StatePath)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return model.State{}, fmt.Errorf("read %s: %w", model.StatePath, err)
	}
	return s, nil
}

// Free returns how many bytes may still be written on the file system of the catalogue.
func Free() (uint64, error) {
	for dir := model.Dir; ; dir = filepath.Dir(dir) {
		if host.Exists(dir) {
			return host.FreeSpace(dir)
		}
	}
}
