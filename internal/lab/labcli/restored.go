package labcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/site"
)

// restored is the install directory that `holdfast restore` made; empty for a new site.
// The lab takes its keys and its snapshot, and writes an install-config of its own, because
// the hosts, their addresses and BMCs are others.
type restored string

// keys gives the lab's site the keys of the directory, unless it has them.
func (r restored) keys(siteDir string) error {
	target := filepath.Join(siteDir, installer.StateFile)
	if r == "" || host.Exists(target) {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(string(r), installer.StateFile))
	if err != nil {
		return fmt.Errorf("--restored: %w", err)
	}
	return host.WriteFileAtomic(target, data, 0o600)
}

// snapshot copies the snapshot to the first host, as a person does at a site.
func (r restored) snapshot(ctx context.Context, b *lab.Lab, c *lab.Client) (err error) {
	if r == "" {
		return nil
	}
	root := ""
	for { // the host is in its power-on self-test; the caller's time limits this
		if root, err = b.Root(ctx, c, b.Layout.Hosts[0].Name); err == nil {
			break
		}
		if waitErr := host.Sleep(ctx, time.Second); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
	target := filepath.Join(root, site.RestorePath)
	if host.Exists(target) {
		return nil
	}
	f, err := os.Open(filepath.Join(string(r), installer.SnapshotFile))
	if err != nil {
		return fmt.Errorf("--restored: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return host.WriteAtomic(target, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}
