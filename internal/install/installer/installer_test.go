package installer_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// directory is an install directory with a fixed clock.
type directory struct {
	*installer.Installer
	t        *testing.T
	now      time.Time
	warnings []string
}

func newDirectory(t *testing.T, config string) *directory {
	t.Helper()
	d := &directory{t: t, now: sitetest.Created}
	d.Installer = &installer.Installer{
		Dir: t.TempDir(), Now: func() time.Time { return d.now }, Random: rand.Reader,
		Warn: func(w string) { d.warnings = append(d.warnings, w) },
	}
	if config != "" {
		d.write(installer.ConfigFile, config)
	}
	return d
}

func (d *directory) write(path, text string) {
	d.t.Helper()
	path = filepath.Join(d.Dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *directory) read(path string) string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.Dir, path))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(data)
}

// must runs a target that has to succeed, and returns the names of the files
// that it wrote.
func (d *directory) must(target func() ([]string, error)) []string {
	d.t.Helper()
	wrote, err := target()
	if err != nil {
		d.t.Fatal(err)
	}
	for i := range wrote {
		if wrote[i], err = filepath.Rel(d.Dir, wrote[i]); err != nil {
			d.t.Fatal(err)
		}
	}
	return wrote
}

// files returns every file of the directory by path.
func (d *directory) files() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(d.Dir, path)
		out[rel] = d.read(rel)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func TestTheSameDirectoryGivesTheSameBytes(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	wrote := d.must(d.IgnitionConfigs)
	want := []string{"bootstrap.ign", "master.ign", "worker.ign", "auth/kubeconfig", "metadata.json"}
	if diff := cmp.Diff(want, wrote); diff != "" {
		t.Errorf("written files: %s", diff)
	}
	first := d.files()
	for path := range first {
		if path == installer.StateFile || path == installer.ConfigFile {
			continue
		}
		if err := os.Remove(filepath.Join(d.Dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	d.now = d.now.Add(time.Hour)
	d.must(d.IgnitionConfigs)
	if diff := cmp.Diff(first, d.files()); diff != "" {
		t.Errorf("a second run differs: %s", diff)
	}
	if again := d.must(d.IgnitionConfigs); len(again) != 0 {
		t.Errorf("a run on a finished directory wrote %v", again)
	}
}

func TestTheConfigurationMayBeRemovedOnceTheDirectoryIsMade(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	first := d.read("bootstrap.ign")
	if err := os.Remove(filepath.Join(d.Dir, installer.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	d.must(d.IgnitionConfigs)
	if d.read("bootstrap.ign") != first {
		t.Error("without the file the result differs")
	}
}

// docs/facts/findings.md#installer, D7: hosts of another architecture got programs that they
// cannot run.
func TestTheReleasesArchitectureIsTheHosts(t *testing.T) {
	arm := strings.Replace(sitetest.OneNone, "controlPlane: {", "controlPlane: {architecture: arm64, ", 1)
	for _, c := range []struct {
		config, built string
		refused       bool
	}{
		{sitetest.OneNone, "amd64", false}, {arm, "arm64", false}, {arm, "", false}, {arm, "amd64", true},
	} {
		d := newDirectory(t, c.config)
		d.Architecture = c.built
		_, err := d.IgnitionConfigs()
		if !c.refused {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantInputError(t, err, `controlPlane.architecture: Invalid value: "arm64": this Holdfast and its release are for amd64`)
		if _, err := os.Stat(filepath.Join(d.Dir, installer.StateFile)); err == nil {
			t.Error("keys were made all the same")
		}
	}
}

// If this build rejects something that earlier builds accepted, that is no reason
// to lose the keys of an existing cluster.
func TestADirectoryOfAnEarlierBuildIsUsedOn(t *testing.T) {
	d := newDirectory(t, sitetest.OneNone)
	d.must(d.IgnitionConfigs)
	var made map[string]any
	if err := json.Unmarshal([]byte(d.read(installer.StateFile)), &made); err != nil {
		t.Fatal(err)
	}
	const inPlace = "bootstrapInPlace: {installationDisk: /dev/sda}\n"
	made["config"] = sitetest.OneNone + inPlace
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	d.write(installer.StateFile, string(text))
	d.write(installer.ConfigFile, sitetest.OneNone+inPlace)
	if _, _, err := d.JoinConfig(state.RoleWorker, "", time.Hour); err != nil {
		t.Errorf("a host that joins: %v", err)
	}
	if _, _, err := d.Kubeconfig(); err != nil {
		t.Errorf("a kubeconfig: %v", err)
	}
	_, err = d.IgnitionConfigs()
	wantInputError(t, err, "bootstrapInPlace: Forbidden: nothing is installed in place")
	d.write(installer.ConfigFile, sitetest.OneNone)
	if _, err := d.IgnitionConfigs(); err != nil {
		t.Errorf("once the field is gone: %v", err)
	}
}

func TestAChangedConfigurationKeepsTheKeys(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	before, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	d.write(installer.ConfigFile, strings.ReplaceAll(sitetest.TwoDual, "10.98.0.5", "10.98.0.7"))
	after, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Identity, after.Identity); diff != "" {
		t.Errorf("the keys changed: %s", diff)
	}
	if got := after.APIHost(); got != "10.98.0.7" {
		t.Errorf("the API is at %s, not where the new configuration says", got)
	}
	if kept := d.read(installer.StateFile); !strings.Contains(kept, "10.98.0.7") {
		t.Error("the state keeps the old configuration")
	}
}

func TestAnotherClustersNameIsRefused(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	first := d.files()
	d.write(installer.ConfigFile, strings.ReplaceAll(sitetest.TwoDual, "{name: shop}", "{name: mill}"))
	_, err := d.IgnitionConfigs()
	wantInputError(t, err, "this directory belongs to cluster shop.example.test and install-config.yaml now names mill.example.test: use an empty directory")
	delete(first, installer.ConfigFile)
	after := d.files()
	delete(after, installer.ConfigFile)
	if diff := cmp.Diff(first, after); diff != "" {
		t.Errorf("the refusal changed files: %s", diff)
	}
}

func TestBadInputLeavesTheDirectoryAlone(t *testing.T) {
	d := newDirectory(t, "")
	_, err := d.IgnitionConfigs()
	wantInputError(t, err, "no install-config.yaml in "+d.Dir+": write one first (see docs/install-config.md)")

	d.write(installer.ConfigFile, strings.NewReplacer("replicas: 2", "replicas: 4", "example.test", "Example!").Replace(sitetest.TwoDual))
	_, err = d.IgnitionConfigs()
	wantInputError(t, err, "controlPlane.replicas", "baseDomain", d.Dir)
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("the error holds a password: %v", err)
	}
	if files := d.files(); len(files) != 1 {
		t.Errorf("bad input left %d files", len(files))
	}
}

func TestADamagedStateIsExplained(t *testing.T) {
	for name, text := range map[string]string{
		"cut off":         `{"version": 1, "identity": {"joinKey": "aHVzaA`,
		"another version": `{"version": 99, "identity": {"joinKey": "aHVzaA=="}}`,
		"empty":           ``,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, sitetest.TwoDual)
			d.write(installer.StateFile, text)
			_, err := d.IgnitionConfigs()
			if err == nil || !strings.Contains(err.Error(), "damaged or of another version: restore it, or start again in an empty directory") ||
				!strings.Contains(err.Error(), site.Path) || strings.Contains(err.Error(), "aHVzaA") {
				t.Errorf("got %v", err)
			}
			if got := d.read(installer.StateFile); got != text {
				t.Errorf("the damaged state was overwritten: %q", got)
			}
		})
	}
}

func TestAnEndedJoinSecretIsRenewedAndNothingElse(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	first := d.files()

	d.now = sitetest.Created.Add(30 * 24 * time.Hour)
	wrote := d.must(d.IgnitionConfigs)
	if diff := cmp.Diff([]string{"bootstrap.ign", "master.ign", "worker.ign"}, wrote); diff != "" {
		t.Errorf("renewed files: %s", diff)
	}
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Identity.JoinExpiry(), d.now.Add(site.JoinLifetime); !got.Equal(want) {
		t.Errorf("the secret ends %s, want %s", got, want)
	}
	if d.read("master.ign") == first["master.ign"] {
		t.Error("the pointer still holds the ended secret")
	}
	d.now = d.now.Add(time.Hour)
	if again := d.must(d.IgnitionConfigs); len(again) != 0 {
		t.Errorf("an hour later it was renewed again: %v", again)
	}
}

func TestWarningsReachThePerson(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	if err := os.Chmod(filepath.Join(d.Dir, installer.ConfigFile), 0o644); err != nil {
		t.Fatal(err)
	}
	d.must(d.IgnitionConfigs)
	path := filepath.Join(d.Dir, installer.ConfigFile)
	want := []string{path + " holds passwords and others can read it (mode 0644): run 'chmod 600 " + path + "'"}
	if diff := cmp.Diff(want, d.warnings); diff != "" {
		t.Error(diff)
	}
}

func TestDataOfABackupThatExceedTheQuotaAreWarnedOf(t *testing.T) {
	for text, warned := range map[string]bool{"": true, "etcdQuotaGiB: 3\n": true, "etcdQuotaGiB: 4\n": false} {
		d := newDirectory(t, sitetest.OneNone+text)
		d.must(d.IgnitionConfigs)
		d.write(installer.SnapshotFile, "")
		if err := os.Truncate(filepath.Join(d.Dir, installer.SnapshotFile), 7<<29); err != nil { // 3.5 GiB, none of it on the disk
			t.Fatal(err)
		}
		d.must(d.IgnitionConfigs)
		said := strings.Join(d.warnings, "\n")
		if strings.Contains(said, "etcdQuotaGiB: the backup's database has 3584 MiB, and etcd's quota is ") != warned {
			t.Errorf("%q: %s", text, said)
		}
	}
}

func TestANewDirectoryNeedsRandomness(t *testing.T) {
	d := newDirectory(t, sitetest.OneNone)
	d.Random = bytes.NewReader([]byte("too short"))
	if _, err := d.IgnitionConfigs(); err == nil {
		t.Error("keys were made from too little randomness")
	}
	if _, err := os.Stat(filepath.Join(d.Dir, installer.StateFile)); err == nil {
		t.Error("a state was saved")
	}
}

func wantInputError(t *testing.T, err error, words ...string) {
	t.Helper()
	if _, ok := errors.AsType[*installer.InputError](err); !ok {
		t.Fatalf("got %v, want an InputError", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}
