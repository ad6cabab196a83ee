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

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/labprogram"
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

// anotherCA makes a Kubernetes CA with its key, of no site.
func anotherCA(t *testing.T) site.KeyPair {
	t.Helper()
	made, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return made.KubernetesCA
}

// Whoever can write to a target has the site's public recipients and its public ca.crt, and no key of
// the site. What he builds with these is no backup of the site.
func TestABackupThatSomebodyElseMadeIsRefused(t *testing.T) {
	dir := t.TempDir()
	own := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	foreign := anotherCA(t)
	former := anotherCA(t)
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	crt, empty := file("ca.crt", own.Cert), file("empty", "nothing")
	both := file("both.crt", former.Cert+own.Cert)
	kubeconfig := file("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"s","contexts":[{"name":"s","context":{"cluster":"s","user":"s"}}],
"clusters":[{"name":"s","cluster":{"server":"https://10.98.0.5:6443","certificate-authority-data":%q}}]}`, base64.StdEncoding.EncodeToString([]byte(own.Cert))))
	forged := site.KeyPair{Cert: own.Cert + foreign.Cert, Key: foreign.Key}
	for name, c := range map[string]struct {
		ca        site.KeyPair
		authority string
		refused   bool
		says      string
	}{
		"of the site":                           {own, crt, false, "as --authority says"},
		"of the site, by a kubeconfig":          {own, kubeconfig, false, "as --authority says"},
		"of the site, before a rotation":        {former, both, false, "as --authority says"},
		"of the site, during a rotation":        {site.KeyPair{Cert: former.Cert + own.Cert, Key: own.Key}, crt, false, "as --authority says"},
		"nobody compares":                       {foreign, "", false, "whether it is of your site was not compared"},
		"of somebody else":                      {foreign, crt, true, "is not of the site of --authority"},
		"of somebody else, by a kubeconfig":     {foreign, kubeconfig, true, "is not of the site of --authority"},
		"with the certificate of the site":      {site.KeyPair{Cert: own.Cert, Key: foreign.Key}, crt, true, "it has no Kubernetes CA with its key"},
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

// A person applies what he takes out of a backup, which may be somebody else's: a look into it compares whose it is
// with what this machine has of its site, and says so.
func TestALookIntoABackupSaysWhoseItIs(t *testing.T) {
	dir := t.TempDir()
	own := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	foreign := anotherCA(t)
	former := anotherCA(t)
	crt, both, twice := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "both.crt"), filepath.Join(dir, "twice.crt")
	for path, text := range map[string]string{crt: own.Cert, both: former.Cert + own.Cert, twice: own.Cert + own.Cert} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, home := hostAuthority, kube.HomeKubeconfig
	t.Cleanup(func() { hostAuthority, kube.HomeKubeconfig = host, home })
	t.Setenv("KUBECONFIG", "")
	kube.HomeKubeconfig = filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		ca              site.KeyPair
		host, authority string
		says, warns     string
		refused         bool
	}{
		"of the site":                         {own, "none", crt, "as --authority says", "", false},
		"of somebody else, and it is named":   {foreign, "none", crt, "is not of the site of --authority", "", true},
		"of the site, on one of its hosts":    {own, crt, "", "as " + crt + " says", "", false},
		"of somebody else, on a host":         {foreign, crt, "", "which " + crt + " does not have", "is not of the site of " + crt, false},
		"with the certificate, and no key":    {site.KeyPair{Cert: own.Cert}, crt, "", "no Kubernetes CA with its key", "nothing proves that", false},
		"of the site, on a host that has two": {own, both, "", "as " + both + " says", both + " has several Kubernetes CAs", false},
		"of the site, and one twice":          {own, twice, "", "as " + twice + " says", "", false},
		"of somebody else, beside two":        {foreign, both, "", "which " + both + " does not have", "is not of the site of " + both, false},
		"this machine knows nothing of sites": {own, "none", "", "was not compared (--authority)", "nobody has compared whose backup", false},
	} {
		hostAuthority = filepath.Join(dir, "none")
		if c.host != "none" {
			hostAuthority = c.host
		}
		file := backupOfShop(t, archive.File{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Data: []byte(c.ca.Cert)}, archive.File{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte(c.ca.Key)})
		for _, line := range []string{"inspect", "extract configmap/prices -o " + filepath.Join(t.TempDir(), "to"), "extract configmap/prices -o -", "diff " + file, "inspect configmap/prices"} {
			verb, args, _ := strings.Cut(line, " ")
			words := append([]string{"backup", verb, file, "--scratch", t.TempDir()}, strings.Fields(args)...)
			if c.authority != "" {
				words = append(words, "--authority", c.authority)
			}
			code, out, errs := runLine(t, words...)
			if want := map[bool]int{false: command.ExitOK, true: command.ExitRefused}[c.refused]; code != want || c.refused && out != "" {
				t.Errorf("%s: %s: exit code %d, want %d: %s%s", name, line, code, want, out, errs)
			}
			if line != "inspect configmap/prices" && !strings.Contains(out+errs, c.says) {
				t.Errorf("%s: %s does not say %q: %s%s", name, line, c.says, out, errs)
			}
			if warned := strings.Contains(errs, "warning: "); warned != (c.warns != "") || !strings.Contains(errs, c.warns) {
				t.Errorf("%s: %s warns %v, want %q: %s", name, line, warned, c.warns, errs)
			}
			if strings.Contains(out+errs, "PRIVATE KEY") {
				t.Errorf("%s: %s prints a key", name, line)
			}
		}
	}
	hostAuthority = filepath.Join(dir, "none")
	t.Setenv("KUBECONFIG", crt)
	if known, file := ownAuthorities(""); file != crt || len(known) != 1 {
		t.Errorf("by $KUBECONFIG it is compared with %q", file)
	}
	hostAuthority = crt
	if known, file := ownAuthorities(filepath.Join(dir, "none")); known != nil || file != "" {
		t.Errorf("beside a kubeconfig that is named and not there, %s counts: %q", file, known)
	}
}

// Beside the lab that is named no other site counts, such as that of ~/.kube/config.
func TestADiffIsComparedWithTheAuthorityOfTheLabThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	own := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	other := anotherCA(t)
	crt, home := filepath.Join(dir, "lab.crt"), filepath.Join(dir, "home.crt")
	for path, text := range map[string]string{crt: own.Cert, home: other.Cert} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hadHost, hadHome := hostAuthority, kube.HomeKubeconfig
	t.Cleanup(func() { hostAuthority, kube.HomeKubeconfig = hadHost, hadHome })
	t.Setenv("KUBECONFIG", "")
	hostAuthority, kube.HomeKubeconfig = filepath.Join(dir, "none"), home
	pretendsLab(t, `echo '{"name": "edge", "kubeconfig": "`+crt+`"}'`)
	file := backupOfShop(t, archive.File{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Data: []byte(own.Cert)}, archive.File{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte(own.Key)})
	code, out, errs := runLine(t, "backup", "diff", file, file, "--lab", "edge", "--scratch", t.TempDir())
	if code != command.ExitOK || !strings.Contains(out, "as "+crt+" says") || strings.Contains(errs, "warning: ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// TestTwoFilesAreComparedWithoutTheLabThatIsNamed: it may be gone since.
func TestTwoFilesAreComparedWithoutTheLabThatIsNamed(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	pretendsLab(t, "exit 1")
	own := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	file := backupOfShop(t, archive.File{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Data: []byte(own.Cert)}, archive.File{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte(own.Key)})
	code, out, errs := runLine(t, "backup", "diff", file, file, "--lab", "edge", "--scratch", t.TempDir())
	if code != command.ExitOK || !strings.Contains(errs, "nobody has compared") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	crt := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(crt, []byte(own.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = runLine(t, "backup", "diff", file, file, "--lab", "edge", "--authority", crt, "--scratch", t.TempDir())
	if code != command.ExitOK || strings.Contains(errs, "warning") {
		t.Errorf("with --authority: exit code %d: %s%s", code, out, errs)
	}
}

// pretendsLab puts a script beside the program that runs, where it looks for holdfast-lab.
func pretendsLab(t *testing.T, script string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(self), labprogram.Name)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there already: %v", path, err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
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
