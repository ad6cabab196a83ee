package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
)

// backupOf writes a backup of a host whose release had a Kubernetes.
func backupOf(t *testing.T, kubernetes string) string {
	t.Helper()
	taken := time.Date(2026, 11, 25, 3, 17, 0, 0, time.UTC)
	e := model.Entry{
		Format: model.Format, ID: model.NewID("cp-1", taken), Site: "shop.example.com", Host: "cp-1", Taken: taken, Reason: model.BySchedule, Good: true,
		Release:  model.Release{Version: "v9.0.0", Digest: "sha256:9", Kubernetes: kubernetes, Etcd: payload.EtcdVersion},
		Database: model.Database{Revision: 4711, Read: 4700, Hash: 77, HashRevision: 4700, CompactRevision: 4000},
	}
	files := []archive.File{{Path: site.Path, Mode: 0o600, Data: []byte("{}")}}
	for _, name := range []string{"ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key"} {
		files = append(files, archive.File{Path: "/etc/kubernetes/pki/" + name, Mode: 0o600, Data: []byte("x")})
	}
	dir := t.TempDir()
	snapshot, path := filepath.Join(dir, "snapshot"), filepath.Join(dir, e.ID+model.ArchiveSuffix)
	var tar bytes.Buffer
	err := os.WriteFile(snapshot, []byte("a database"), 0o600)
	if err == nil {
		err = archive.Write(t.Context(), &tar, e, snapshot, files)
	}
	if err = errors.Join(err, os.WriteFile(path, tar.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestL57ANewerBackupLeavesNoInstallDirectory: the rule is that of decide/restore; the command
// asks it before it writes. A backup of its own release gets as far as the directory.
func TestL57ANewerBackupLeavesNoInstallDirectory(t *testing.T) {
	for kubernetes, refused := range map[string]bool{"v9.0.0": true, payload.KubernetesVersion: false} {
		dir := filepath.Join(t.TempDir(), "store-17")
		code, out, errs := runLine(t, "restore", "--from", backupOf(t, kubernetes), "--dir", dir)
		_, err := os.Stat(dir)
		if gone := errors.Is(err, fs.ErrNotExist); gone != refused {
			t.Errorf("%s: the directory: %v; %s", kubernetes, err, errs)
		}
		if told := strings.Contains(errs, "take the holdfast and the release v9.0.0 (sha256:9)"); told != refused || refused && (code != command.ExitFailed || out != "") {
			t.Errorf("%s: exit %d, %s%s", kubernetes, code, out, errs)
		}
	}
}
