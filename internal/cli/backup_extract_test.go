package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
)

func TestEveryMistakeOfALookIntoABackupIsToldAtOnce(t *testing.T) {
	plain, sent, _ := backupFiles(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		line []string
		code int
		says []string
	}{
		"extract":             {[]string{"extract", plain}, command.ExitUsage, []string{"--output: name a folder", "name a namespace with -n"}},
		"extract, arguments":  {[]string{"extract", plain, "cm/a", "b", "-o", full}, command.ExitUsage, []string{`"b": must be TYPE/NAME`, "is not empty: name a folder that does not exist"}},
		"inspect, arguments":  {[]string{"inspect", plain, "cm/a", "b", "c"}, command.ExitUsage, []string{`"b": must be`, `"c": must be`}},
		"inspect, no key":     {[]string{"inspect", sent}, command.ExitUsage, []string{"--identity FILE"}},
		"diff, resources":     {[]string{"diff", plain, plain, "--resources", "cm/,/x"}, command.ExitUsage, []string{`--resources: "cm/"`, `"/x": must be`}},
		"no database of etcd": {[]string{"inspect", plain}, command.ExitFailed, []string{"open the snapshot"}},
	} {
		code, out, errs := runLine(t, append([]string{"backup"}, c.line...)...)
		if code != c.code || out != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, code, c.code, out, errs)
		}
		for _, says := range c.says {
			if !strings.Contains(errs, says) {
				t.Errorf("%s does not say %q: %s", name, says, errs)
			}
		}
	}
}

func TestALookIntoABackupLeavesNothingBehind(t *testing.T) {
	plain, _, _ := backupFiles(t)
	scratch := t.TempDir()
	for _, verb := range []string{"inspect", "diff"} {
		_, _, _ = runLine(t, "backup", verb, plain, "--scratch", scratch)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestTheFolderOfManifestsAppearsWholeAndForItsOwnerAlone(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "shop-objects")
	if err := os.Mkdir(dir, 0o755); err != nil { // an empty one may be there
		t.Fatal(err)
	}
	name := "till:" + strings.Repeat("x", 300)
	o := objects.Object{Kind: objects.Kind{Resource: "roles"}, Name: name, Content: map[string]any{"kind": "Role"}}
	if err := writeManifests(dir+"/", []objects.Object{o, o}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "0001-"+("roles-till_" + name[5:])[:200]+".yaml"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := writeManifests(dir, []objects.Object{o}); err == nil {
		t.Error("a folder with manifests was overwritten")
	}
	if left, err := os.ReadDir(above); err != nil || len(left) != 1 {
		t.Errorf("beside it lies %v, %v", left, err)
	}
}
