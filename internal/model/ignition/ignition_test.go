package ignition

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// convert rewrites a configuration of any version up to Newest in the given one.
// Fields that the version lacks are an error, never dropped.
func convert(raw []byte, version string) ([]byte, error) {
	cfg, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	return encode(cfg, cfg, version)
}

func site() Config {
	return Config{
		Files: []state.File{
			{Path: "/etc/kubernetes/pki/ca.key", Data: []byte("secret"), Mode: state.SecretFileMode},
			{Path: "/etc/hostname", Data: []byte("cp-0\n")},
			{Path: "/etc/empty"},
		},
		Directories: []Directory{{Path: "/var/lib/etcd", Mode: 0o700}, {Path: "/opt/x"}},
		Links:       []Link{{Path: "/etc/localtime", Target: "../usr/share/zoneinfo/UTC"}},
		Units: []Unit{
			{Name: "swap.target", Masked: true},
			{
				Name: "a.service", Enabled: true,
				Contents: "[Service]\nExecStart=/bin/true && <x>\n[Install]\nWantedBy=multi-user.target\n",
				Dropins:  []Dropin{{Name: "20-b.conf", Contents: "[Service]\nB=1\n"}, {Name: "10-a.conf", Contents: "[Service]\nA=1\n"}},
			},
		},
		Users: []User{{Name: "core", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA me"}, Groups: []string{"sudo"}}},
		Merge: []Source{{URL: "https://api-int.x:22623/config/worker", CA: []byte("PEM"), Token: "tok"}},
	}
}

func TestEachVersionIsWrittenAsTheGoldenSays(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			c := site()
			if version == "3.0.0" {
				c.Merge[0].Token = ""
			}
			got, err := Marshal(c, version)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, version+".json", got)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

func TestTheSameConfigGivesTheSameBytesInAnyOrder(t *testing.T) {
	a, err := Marshal(site(), Newest)
	if err != nil {
		t.Fatal(err)
	}
	c := site()
	slices.Reverse(c.Files)
	slices.Reverse(c.Directories)
	slices.Reverse(c.Units)
	slices.Reverse(c.Units[0].Dropins)
	b, err := Marshal(c, Newest)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("bytes differ:\n%s\n%s", a, b)
	}
}

func TestEveryFileHasAModeAndOverwrites(t *testing.T) {
	raw, err := Marshal(site(), Newest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"/etc/kubernetes/pki/ca.key": 0o600, "/etc/hostname": 0o644, "/etc/empty": 0o644}
	got := map[string]int{}
	for _, f := range cfg.Storage.Files {
		if f.Mode == nil || f.Overwrite == nil || !*f.Overwrite {
			t.Fatalf("%s: mode %v, overwrite %v", f.Path, f.Mode, f.Overwrite)
		}
		got[f.Path] = *f.Mode
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsAreNamedAllAtOnceWithTheirPath(t *testing.T) {
	tests := []struct {
		name    string
		config  Config
		version string
		want    []string
	}{
		{
			"a relative path and a duplicate",
			Config{Files: []state.File{{Path: "etc/x"}, {Path: "/a"}, {Path: "/a"}}},
			Newest,
			[]string{"storage.files.1: duplicate entry defined", "storage.files.2.path: path not absolute"},
		},
		{
			"an enabled unit that nothing wants",
			Config{Units: []Unit{{Name: "a.service", Enabled: true, Contents: "[Service]\nA=1\n"}}},
			Newest,
			[]string{"systemd.units.0.contents", "no install section"},
		},
		{"a unit without suffix", Config{Units: []Unit{{Name: "a", Contents: "[Service]\n"}}}, Newest, []string{"systemd.units.0.name"}},
		{"an unknown version", Config{}, "2.2.0", []string{"2.2.0", "3.0.0, 3.1.0"}},
		{
			"a header before 3.1.0",
			Config{Merge: []Source{{URL: "https://x/", Token: "s3cret"}}},
			"3.0.0",
			[]string{"ignition.config.merge.0.httpHeaders: unused key httpHeaders"},
		},
		{
			"a token over http",
			Config{Merge: []Source{{URL: "http://x/", Token: "s3cret"}, {URL: "nonsense"}}},
			Newest,
			[]string{"merge.0.source: a token needs https, not http", "merge.1.source: not a URL"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := Marshal(tt.config, tt.version)
			if err == nil {
				t.Fatalf("got %s", raw)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error tells the token: %v", err)
			}
		})
	}
}

func TestConvertKeepsEverythingOrRefuses(t *testing.T) {
	c := site()
	c.Merge = nil
	for _, from := range Versions() {
		raw, err := Marshal(c, from)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range Versions() {
			got, err := convert(raw, to)
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			want, err := Marshal(c, to)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s to %s: got %s, want %s", from, to, got, want)
			}
		}
	}
	kernel := []byte(`{"ignition":{"version":"3.3.0"},"kernelArguments":{"shouldExist":["quiet"]}}`)
	if got, err := convert(kernel, "3.2.0"); err == nil || !strings.Contains(err.Error(), "kernelArguments") {
		t.Errorf("kernel arguments in 3.2.0: %s, %v", got, err)
	}
}

func TestPointerHoldsURLAuthorityAndToken(t *testing.T) {
	raw, err := Pointer("https://api-int.x:22623/config/master", "PEM", "tok")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "pointer.json", raw)
}

func TestParseRefusesWhatItWouldHaveToSkip(t *testing.T) {
	tests := map[string]string{
		"":                                       "empty",
		"{":                                      "unexpected end",
		`{"ignition":{"version":"2.2.0"}}`:       "ignition.version: unsupported",
		`{"ignition":{"version":"3.9.0"}}`:       "ignition.version: unsupported",
		`{"ignition":{}}`:                        "version",
		`{"ignition":{"version":"3.4.0"},"x":1}`: "x: unused key x",
	}
	for raw, want := range tests {
		if _, err := Parse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
	}
}

func BenchmarkMarshalOfALargeHost(b *testing.B) {
	c := site()
	for i := range 60 {
		c.Files = append(c.Files, state.File{Path: "/etc/holdfast/f" + strings.Repeat("x", i+1), Data: bytes.Repeat([]byte("k: v\n"), 800)})
	}
	for b.Loop() {
		if _, err := Marshal(c, Newest); err != nil {
			b.Fatal(err)
		}
	}
}
