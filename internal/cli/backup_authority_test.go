package cli

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/installer"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// backupWith writes a backup, an hour old, with a Kubernetes CA and its key.
func backupWith(t *testing.T, ca site.KeyPair) string {
	t.Helper()
	return backupMade(t, time.Now().Add(-time.Hour), model.Release{Version: payload.Version, Kubernetes: payload.KubernetesVersion, Etcd: payload.EtcdVersion}, ca)
}

// Whoever can write to a target has the site's public recipients and its public ca.crt, and no key of
// the site. What he builds with these is no backup of the site.
func TestABackupThatSomebodyElseMadeIsRefused(t *testing.T) {
	dir := t.TempDir()
	own := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	foreign, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	former, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	crt, empty := file("ca.crt", own.Cert), file("empty", "nothing")
	both := file("both.crt", former.KubernetesCA.Cert+own.Cert)
	kubeconfig := file("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"s","contexts":[{"name":"s","context":{"cluster":"s","user":"s"}}],
"clusters":[{"name":"s","cluster":{"server":"https://10.98.0.5:6443","certificate-authority-data":%q}}]}`, base64.StdEncoding.EncodeToString([]byte(own.Cert))))
	forged := site.KeyPair{Cert: own.Cert + foreign.KubernetesCA.Cert, Key: foreign.KubernetesCA.Key}
	for name, c := range map[string]struct {
		ca        site.KeyPair
		authority string
		refused   bool
		says      string
	}{
		"of the site":                           {own, crt, false, "as --authority says"},
		"of the site, by a kubeconfig":          {own, kubeconfig, false, "as --authority says"},
		"of the site, before a rotation":        {former.KubernetesCA, both, false, "as --authority says"},
		"of the site, during a rotation":        {site.KeyPair{Cert: former.KubernetesCA.Cert + own.Cert, Key: own.Key}, crt, false, "as --authority says"},
		"nobody compares":                       {foreign.KubernetesCA, "", false, "whether it is of your site was not compared"},
		"of somebody else":                      {foreign.KubernetesCA, crt, true, "is not of the site of --authority"},
		"of somebody else, by a kubeconfig":     {foreign.KubernetesCA, kubeconfig, true, "is not of the site of --authority"},
		"with the certificate of the site":      {site.KeyPair{Cert: own.Cert, Key: foreign.KubernetesCA.Key}, crt, true, "it has no Kubernetes CA with its key"},
		"with the certificate beside his own":   {forged, crt, true, "is not of the site of --authority"},
		"with the certificate, and without key": {site.KeyPair{Cert: own.Cert}, crt, true, "it has no Kubernetes CA with its key"},
	} {
		backup, to := backupWith(t, c.ca), filepath.Join(t.TempDir(), "store-17")
		for _, line := range [][]string{
			{"backup", "verify", "--scratch", t.TempDir(), "--etcdutl", "/none/etcdutl", backup},
			{"restore", "--dry-run", "--scratch", t.TempDir(), "--dir", to, "--from", backup},
			{"restore", "--scratch", t.TempDir(), "--dir", to, "--from", backup},
		} {
			if c.authority != "" {
				line = append(line, "--authority", c.authority)
			}
			code, out, errs := runLine(t, line...)
			if (code == command.ExitRefused) != c.refused || !strings.Contains(out+errs, c.says) {
				t.Errorf("%s: %s: exit code %d: %s%s", name, line[0], code, out, errs)
			}
			if strings.Contains(out+errs, "PRIVATE KEY") {
				t.Errorf("%s: %s prints a key", name, line[0])
			}
		}
		if _, err := os.Stat(to); errors.Is(err, fs.ErrNotExist) != c.refused {
			t.Errorf("%s: the directory: %v", name, err)
		}
	}
	for _, wrong := range []string{empty, filepath.Join(dir, "none")} {
		if code, out, errs := runLine(t, "backup", "verify", "--authority", wrong, backupWith(t, own)); code != command.ExitUsage || !strings.Contains(errs, "--authority") {
			t.Errorf("%s: exit code %d: %s%s", wrong, code, out, errs)
		}
	}
}

// A restore reads the file three times. In a folder into which others write, the file that was compared
// may be replaced between two readings.
func TestARestoreTakesNothingThatItHasNotCompared(t *testing.T) {
	r := restoring{from: "a", file: backupWith(t, sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA)}
	_, m, err := r.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.members, r.dir = m.Members[1:], filepath.Join(t.TempDir(), "store-17")
	_, err = r.write(t.Context(), Streams{Out: io.Discard, Err: io.Discard}, installer.Backup{})
	if !errors.Is(err, errChanged) {
		t.Errorf("took a snapshot that was not compared: %v", err)
	}
}
