package installer_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/ignition"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// hostManifest returns the manifest that the first host gets, or "" if it gets
// none.
func (d *directory) hostManifest(path string) string {
	d.t.Helper()
	return ignitionFiles(d.t, d.read("bootstrap.ign"))[renderhost.ManifestDir+"/"+path].data
}

type ignitionFile struct {
	data string
	mode int
}

func ignitionFiles(t *testing.T, text string) map[string]ignitionFile {
	t.Helper()
	cfg, err := ignition.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ignitionFile{}
	for _, f := range cfg.Storage.Files {
		data, err := ignition.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Path] = ignitionFile{data: string(data), mode: *f.Mode}
	}
	return out
}

// anObject returns the path of a manifest that depends on the site's
// configuration.
func (d *directory) anObject() string {
	d.t.Helper()
	for path, text := range d.files() {
		if filepath.Dir(path) == "manifests/status" && strings.Contains(text, "10.98.0.5") {
			return path
		}
	}
	d.t.Fatal("no manifest names the API VIP")
	return ""
}

func TestManifestsThatNobodyChangedMakeNoDifference(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	without := d.read("bootstrap.ign")
	wrote := d.must(d.Manifests)
	if !slices.Contains(wrote, "network/flannel.yaml") || len(wrote) < 10 {
		t.Fatalf("manifests: %v", wrote)
	}
	d.must(d.IgnitionConfigs)
	if d.read("bootstrap.ign") != without {
		t.Error("bootstrap.ign differs with unchanged manifests in the directory")
	}
	if again := d.must(d.Manifests); len(again) != 0 {
		t.Errorf("a second run wrote %v", again)
	}
}

func TestAPersonsManifestsAreUsed(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.Manifests)
	edited := d.anObject()
	d.write(edited, d.read(edited)+"# mine\n")
	d.write("manifests/99-mine.yaml", "kind: Mine\n")
	d.write("manifests/README.md", "not a manifest\n")
	removed := "network/flannel.yaml"
	if err := os.Remove(filepath.Join(d.Dir, removed)); err != nil {
		t.Fatal(err)
	}
	d.must(d.IgnitionConfigs)
	if !strings.HasSuffix(d.hostManifest(edited), "# mine\n") {
		t.Error("a change is lost")
	}
	if d.hostManifest("manifests/99-mine.yaml") != "kind: Mine\n" {
		t.Error("an added manifest is lost")
	}
	if d.hostManifest(removed) != "" {
		t.Error("a deleted manifest is applied")
	}
	if d.hostManifest("manifests/README.md") != "" {
		t.Error("what is no manifest is applied")
	}
	wrote := d.must(d.Manifests)
	if len(wrote) != 1 || wrote[0] != removed {
		t.Errorf("asked for manifests again it wrote %v, want only the deleted one", wrote)
	}
	if !strings.HasSuffix(d.read(edited), "# mine\n") {
		t.Error("a second 'create manifests' lost the change")
	}
}

func TestOneOwnManifestDoesNotReplaceAllOthers(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.write("manifests/99-mine.yaml", "kind: Mine\n")
	d.must(d.IgnitionConfigs)
	if d.hostManifest("manifests/99-mine.yaml") == "" || d.hostManifest("network/flannel.yaml") == "" {
		t.Error("own manifests and rendered ones do not both reach the host")
	}
}

func TestUnchangedManifestsFollowTheConfiguration(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.Manifests)
	object := d.anObject()
	d.write(installer.ConfigFile, strings.Replace(strings.ReplaceAll(sitetest.TwoDual, "10.98.0.5", "10.98.0.7"),
		"networking:", "networking:\n  networkType: None", 1))
	d.must(d.IgnitionConfigs)
	if !strings.Contains(d.read(object), "10.98.0.7") || !strings.Contains(d.hostManifest(object), "10.98.0.7") {
		t.Error("a manifest still names the old VIP")
	}
	if d.hostManifest("network/flannel.yaml") != "" {
		t.Error("the pod network that nobody asks for any more is applied")
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "network/flannel.yaml")); err == nil {
		t.Error("the manifest that nobody asks for any more is kept")
	}
	if len(d.warnings) != 1 || !strings.Contains(d.warnings[0], "network/flannel.yaml: install-config.yaml no longer asks for it") {
		t.Errorf("warnings: %q", d.warnings)
	}
}

func TestTwoChangesOfOneManifestAreNotGuessed(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.Manifests)
	object := d.anObject()
	d.write(object, d.read(object)+"# mine\n")
	d.write(installer.ConfigFile, strings.ReplaceAll(sitetest.TwoDual, "10.98.0.5", "10.98.0.7"))
	was := d.read(installer.StateFile)
	for _, create := range []func() ([]string, error){d.IgnitionConfigs, d.Manifests, d.IgnitionConfigs} { // the refusal stays
		_, err := create()
		wantInputError(t, err, object, "delete them, run 'holdfast create manifests' and make your changes again")
		if d.read(installer.StateFile) != was {
			t.Error("the configuration that is refused is saved: other commands go by it")
		}
	}
	if err := os.Remove(filepath.Join(d.Dir, object)); err != nil {
		t.Fatal(err)
	}
	d.must(d.Manifests)
	d.must(d.IgnitionConfigs)
	if !strings.Contains(d.hostManifest(object), "10.98.0.7") {
		t.Error("the way out does not lead out")
	}
}

func TestDeletingAllManifestsIsANewStart(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.Manifests)
	for _, dir := range []string{"manifests", "network"} {
		if err := os.RemoveAll(filepath.Join(d.Dir, dir)); err != nil {
			t.Fatal(err)
		}
	}
	d.must(d.IgnitionConfigs)
	if d.hostManifest("network/flannel.yaml") == "" {
		t.Error("the cluster gets no objects")
	}
}
