package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/installer"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
)

// backupOf writes a backup of a host whose release had a Kubernetes, an hour old.
func backupOf(t *testing.T, kubernetes string) string {
	t.Helper()
	return backupTaken(t, kubernetes, time.Now().Add(-time.Hour))
}

func backupTaken(t *testing.T, kubernetes string, taken time.Time) string {
	t.Helper()
	return backupMade(t, taken, model.Release{Version: "v9.0.0", Digest: "sha256:9", Kubernetes: kubernetes, Etcd: payload.EtcdVersion}, site.KeyPair{Cert: "x", Key: "x"})
}

// backupMade writes the backup of a host.
func backupMade(t *testing.T, taken time.Time, release model.Release, ca site.KeyPair) string {
	t.Helper()
	e := model.Entry{
		Format: model.Format, ID: model.NewID("cp-1", taken), Site: "shop.example.com", Host: "cp-1", Taken: taken, Reason: model.BySchedule, Good: true,
		Release:  release,
		Database: model.Database{Revision: 4711, Read: 4700, Hash: 77, HashRevision: 4700, CompactRevision: 4000},
	}
	files := []archive.File{
		{Path: site.Path, Mode: 0o600, Data: []byte("{}")},
		{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Data: []byte(ca.Cert)},
		{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte(ca.Key)},
	}
	for _, name := range []string{"etcd/ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key"} {
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

// A clock that is behind would begin a life that is older than the site's, and hosts would wait for ever
// for the time of a backup whose host's clock was ahead. Which of the two it is, a person has to say.
func TestABackupOfTheFutureIsRestoredOnceAPersonHasComparedTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		taken time.Duration // from now
		flags []string
		code  int
		says  string
	}{
		"of the past":               {-time.Hour, nil, command.ExitFailed, "1h0m0s ago"},
		"clocks differ by a minute": {time.Minute, nil, command.ExitFailed, "0s ago"},
		"of the future":             {time.Hour, nil, command.ExitRefused, "refused, nothing was written: the clock of this machine says "},
		"of the future, for a look": {time.Hour, []string{"--dry-run"}, command.ExitRefused, "this clock is behind, or that of the backup's host was ahead"},
		"the clock was compared":    {time.Hour, []string{"--clock-is-right"}, command.ExitFailed, "nobody knows how old it is"},
	} {
		dir := filepath.Join(t.TempDir(), "store-17")
		code, out, errs := runLine(t, append([]string{"restore", "--from", backupTaken(t, payload.KubernetesVersion, time.Now().Add(c.taken)), "--dir", dir}, c.flags...)...)
		// Its site.json is no site's, so a restore that is not refused fails when it writes.
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", name, code, c.code, c.says, out, errs)
		}
		if _, err := os.Stat(dir); (err == nil) != (c.code == command.ExitFailed) {
			t.Errorf("%s: the directory: %v", name, err)
		}
	}
	b := installer.Backup{Taken: time.Now().Add(time.Hour)}
	if err := (&restoring{clockIsRight: true}).compareClocks(io.Discard, &b, time.Now()); err != nil || !b.Taken.IsZero() {
		t.Errorf("hosts wait for %s: %v", b.Taken, err)
	}
}
