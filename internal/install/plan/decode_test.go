package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestDecodeNamesEverythingItRefusesAtOnce(t *testing.T) {
	raw := `{"ignition":{"version":"3.4.0","config":{"replace":{"source":"https://x/"}}},
"kernelArguments":{"shouldExist":["quiet"]},
"passwd":{"groups":[{"name":"-x"}],
  "users":[{"name":"Root:","groups":["a b"],"sshAuthorizedKeys":["a\nb"],"gecos":"a:b","homeDir":"here","primaryGroup":"-"}]},
"storage":{"disks":[{"device":"/dev/sda"}],"raid":[{"name":"r","level":"raid1","devices":["/dev/sda"]}],
  "filesystems":[{"device":"/dev/sda","format":"xfs"}],
  "luks":[{"name":"l","device":"/dev/sda"}],
  "directories":[{"path":"/d","overwrite":true},{"path":"/sys/x"},{"path":"/f/sub/dir"}],
  "files":[{"path":"/f","contents":{"source":"https://x/f"}},
    {"path":"/g","contents":{"source":"data:,x","verification":{"hash":"sha256-0000000000000000000000000000000000000000000000000000000000000000"}}},
    {"path":"/etc/holdfast/packages.json","contents":{"source":"data:,%7B%22apt%22%3A%5B%22-o%22%5D%7D"}}],
  "links":[{"path":"/l","hard":true,"target":"../x"}]},
"systemd":{"units":[{"name":"../../x.service","contents":"[Service]\nA=1"},{"name":"m.service","mask":true,"contents":"[Service]\nA=1"}]}}`
	_, err := read([]byte(raw))
	if err == nil {
		t.Fatal("decoded")
	}
	want := []string{
		"storage.disks: a package-based host keeps its disks",
		"storage.raid: a package-based host keeps its disks",
		"storage.filesystems: a package-based host keeps its disks",
		"storage.luks: a package-based host keeps its disks",
		"kernelArguments: a package-based host keeps its boot loader",
		"ignition.config.replace: not fetched yet",
		`passwd.groups.0.name: "-x" is not a name`,
		`passwd.users.0.name: "Root:" is not a name`,
		`passwd.users.0.groups.0: "a b" is not a name`,
		"passwd.users.0.sshAuthorizedKeys.0: not one line of authorized_keys",
		"passwd.users.0.gecos: holds a colon",
		`passwd.users.0.homeDir: "here" is not a clean absolute path`,
		`passwd.users.0.primaryGroup: "-" is not a name`,
		"storage.directories.0.overwrite: would empty /d",
		"storage.directories.1.path: /sys/x lies in /sys",
		"storage.directories.2.path: /f/sub/dir lies below /f, which is a file",
		"storage.files.0.contents.source: only data: URLs",
		"storage.files.1.contents.verification.hash: the contents do not match the hash",
		`storage.files.2: /etc/holdfast/packages.json: "-o" is not the name of a package`,
		"storage.links.0.target: needed, and absolute",
		`systemd.units.0.name: "../../x.service" is not the name of a unit`,
		"systemd.units.1.mask: m.service cannot be masked and have contents",
	}
	got := strings.Split(err.Error(), "\n")
	for _, w := range want {
		if !hasPrefix(got, w) {
			t.Errorf("missing: %s", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d:\n%s", len(got), len(want), err)
	}
}

func hasPrefix(lines []string, prefix string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return true
		}
	}
	return false
}

func TestDecodeReadsEveryStableVersionAlike(t *testing.T) {
	c := ignition.Config{
		Files:       []state.File{{Path: "/etc/a", Data: []byte("a"), Mode: 0o600}},
		Directories: []ignition.Directory{{Path: "/d", Mode: 0o700}},
		Links:       []ignition.Link{{Path: "/l", Target: "x"}},
		Units:       []ignition.Unit{{Name: "a.service", Enabled: true, Contents: "[Install]\nWantedBy=x.target\n"}},
		Users:       []ignition.User{{Name: "core", SSHAuthorizedKeys: []string{"k"}}},
	}
	var first Desired
	for i, version := range ignition.Versions() {
		raw, err := ignition.Marshal(c, version)
		if err != nil {
			t.Fatal(err)
		}
		d, err := read(raw)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if i == 0 {
			first = d
		}
		if diff := cmp.Diff(first, d); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
}

func FuzzDecodeNeverPanicsAndPlansAreStable(f *testing.F) {
	goldens, err := filepath.Glob("../../model/ignition/testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range goldens {
		raw, err := os.ReadFile(g)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","append":[{"source":"data:,x"}]}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := read(raw)
		if err != nil {
			return
		}
		settle(t, d, Observed{Live: true, Packages: PackageState{Manager: "apt"}})
	})
}

// read parses a configuration and decodes it.
func read(raw []byte) (Desired, error) {
	cfg, err := ignition.Parse(raw)
	if err != nil {
		return Desired{}, err
	}
	return FromConfig(cfg)
}
