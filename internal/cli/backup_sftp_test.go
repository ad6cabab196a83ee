package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/testkit/sshdtest"
)

// targetsFile writes a configuration of backups with one server.
func targetsFile(t *testing.T, where model.SFTP, mode os.FileMode) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	text, err := model.Config{Recipients: []string{id.Recipient().String()}, Targets: []model.Target{{Name: "attic", SFTP: &where}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backups.yaml")
	if err := os.WriteFile(file, text, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestABackupOfAnSSHServerIsListedFetchedAndOpenedByARestore(t *testing.T) {
	s, other := sshdtest.Start(t, "127.0.0.1", ""), sshdtest.Start(t, "127.0.0.1", "")
	_, sent, key := backupFiles(t)
	id := strings.TrimSuffix(filepath.Base(sent), model.SentSuffix)
	putBackup(t, model.Target{Name: "far", SFTP: &s.SFTP}, sent, id)
	wrong := s.SFTP
	wrong.HostKeys = other.SFTP.HostKeys
	targets, open, otherKey := targetsFile(t, s.SFTP, 0o600), targetsFile(t, s.SFTP, 0o644), targetsFile(t, wrong, 0o600)
	server := (&url.URL{Scheme: "sftp", User: url.User(s.SFTP.User), Host: s.Address}).String()
	archive := server + s.Dir + "/shop.example.com/cp-1/" + id + ".tar.age"
	scratch := t.TempDir()
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"backup list --targets TARGETS --from FOLDER", command.ExitOK, "the newest good one: " + archive},
		{"backup list --targets OPEN --from FOLDER", command.ExitOK, "others of this machine can read it (mode 0644): chmod 600 "},
		{"backup list --from FOLDER", command.ExitUsage, "give the file with its account and host key, --targets FILE"},
		{"backup list --targets OTHER --from FOLDER", command.ExitFailed, "the server has another key than hostKeys names"},
		{"restore --scratch SCRATCH --targets TARGETS --identity KEY --dry-run --dir store --from FOLDER", command.ExitUsage, "the newest good one is " + archive},
		{"restore --scratch SCRATCH --targets TARGETS --identity KEY --dry-run --dir store --from ARCHIVE", command.ExitFailed, "is whole, but lacks files that a restore needs"},
		{"restore --scratch SCRATCH --targets OTHER --identity KEY --dry-run --dir store --from ARCHIVE", command.ExitFailed, "the server has another key than hostKeys names"},
		{"backup inspect --scratch SCRATCH --targets TARGETS --identity KEY NOT-SENT", command.ExitFailed, "the entry beside " + server},
		{"backup fetch --targets TARGETS ARCHIVE", command.ExitOK, "is the one that the catalogue describes"},
		{"backup verify --identity KEY --etcdutl /none " + id + ".tar.age", command.ExitAttention, "was not restored here"},
	} {
		words := strings.NewReplacer("TARGETS", targets, "OPEN", open, "OTHER", otherKey, "KEY", key, "SCRATCH", scratch, "FOLDER", server+s.Dir+"/shop.example.com",
			"ARCHIVE", archive, "NOT-SENT", server+s.Dir+"/shop.example.com/cp-1/20261126T031700Z-cp-1.tar.age")
		code, out, errs := runLine(t, strings.Fields(words.Replace(c.line))...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", c.line, code, c.code, c.says, out, errs)
		}
		if strings.Contains(out+errs, "PRIVATE KEY") {
			t.Errorf("%s: it prints a secret", c.line)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
