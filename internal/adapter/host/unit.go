package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// StartUnit writes the file of a unit of systemd, where it differs, and starts the unit
// without waiting for its end.
func StartUnit(ctx context.Context, unit string, file state.File) error {
	if err := writeUnit(ctx, unit, []state.File{file}); err != nil {
		return err
	}
	_, err := Run(ctx, Command("systemctl", "start", "--no-block", unit))
	return err
}

// EnableUnit writes the files of a unit of systemd, where they differ, and has each boot start
// the unit. To enable it has systemd read all files anew, too.
func EnableUnit(ctx context.Context, unit string, files []state.File) error {
	if err := writeUnit(ctx, unit, files); err != nil {
		return err
	}
	is, err := UnitProperty(ctx, unit, "UnitFileState")
	if err != nil || is == "enabled" {
		return err
	}
	_, err = Run(ctx, Command("systemctl", "enable", "--quiet", "--", unit))
	return err
}

// writeUnit writes the files of a unit, where they differ, and has systemd read them. systemd
// reads them anew also if it did not after an earlier write: it would run what they said before.
func writeUnit(ctx context.Context, unit string, files []state.File) error {
	wrote, err := WriteFiles("/", files)
	if err != nil {
		return err
	}
	stale, err := UnitProperty(ctx, unit, "NeedDaemonReload")
	if err != nil {
		return err
	}
	if len(wrote) > 0 || stale == "yes" {
		_, err = Run(ctx, Command("systemctl", "daemon-reload"))
	}
	return err
}

// UnitWorks reports whether a unit runs, or is about to.
func UnitWorks(ctx context.Context, unit string) (bool, error) {
	is, err := UnitProperty(ctx, unit, "ActiveState")
	return slices.Contains([]string{"activating", "active", "deactivating", "reloading"}, is), err
}

// ReadState reads the file of JSON in which a unit says how far it is; zero if it said nothing
// in this boot.
func ReadState[T any](path string) (said T, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return said, nil
	}
	if err != nil {
		return said, err
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return *new(T), fmt.Errorf("read %s: %w", path, err)
	}
	return said, nil
}

// UnitProperty returns what systemd says of a unit.
func UnitProperty(ctx context.Context, unit, property string) (string, error) {
	out, err := Run(ctx, Command("systemctl", "show", "--property="+property, "--value", "--", unit))
	return strings.TrimSpace(string(out)), err
}
