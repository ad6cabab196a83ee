package release

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/model/payload"
)

func TestProgramsAreMadeOnceTestProgramsToo(t *testing.T) {
	opts := testOptions(t)
	write(t, filepath.Join(opts.Root, "beta/cmd/one/one_test.go"),
		"package main\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) { t.Log(\"the test ran\") }\n")
	c := testComponents[1]
	c.Binaries = append(slices.Clone(c.Binaries), payload.Binary{Name: "one.test", Package: "./cmd/one", Test: true})
	first, err := Programs(t.Context(), opts, c)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), first["one.test"], "-test.v").CombinedOutput(); err != nil {
		t.Errorf("one.test: %v: %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), first["two"]).CombinedOutput(); err != nil || string(out) != "two\n" {
		t.Errorf("two: %v: %q", err, out)
	}
	made, err := os.Stat(first["one.test"])
	if err != nil {
		t.Fatal(err)
	}
	second, err := Programs(t.Context(), opts, c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(second["one.test"]); err != nil || !os.SameFile(made, again) {
		t.Errorf("a second call made the program again: %v", err)
	}
}

// TestExtrasOfAnImage shows what an image may contain beside programs and
// packages.
func TestExtrasOfAnImage(t *testing.T) {
	opts := testOptions(t)
	opts.Images = []payload.ImageSpec{{
		Name: "extra", Tag: "v1", Entrypoint: []string{"/one"}, Cmd: []string{"now"}, User: "1234",
		Files: []payload.ImageFile{{Component: "beta", Binary: "one", Path: "/one", Setuid: true}, {Component: "beta", Binary: "two", Path: "/two"}},
		Extra: []payload.ExtraFile{{Path: "/etc/name", Content: []byte("extra")}, {Path: "/uno", Link: "one"}},
	}}
	s := open(t, build(t, opts).Output)
	d, err := s.image("extra")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.imageManifest(d)
	if err != nil {
		t.Fatal(err)
	}
	var config v1.ConfigFile
	data, err := os.ReadFile(must(blobPath(s.dir, m.Config.Digest.String())))
	if err = errors.Join(err, json.Unmarshal(data, &config)); err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "1234" || !slices.Equal(c.Cmd, []string{"now"}) || !slices.Equal(c.Entrypoint, []string{"/one"}) {
		t.Errorf("the image runs %v %v as %q", c.Entrypoint, c.Cmd, c.User)
	}
	modes, links := map[string]int64{}, map[string]string{}
	for _, l := range m.Layers {
		f, err := os.Open(must(blobPath(s.dir, l.Digest.String())))
		if err != nil {
			t.Fatal(err)
		}
		tr := tar.NewReader(f)
		for h, err := tr.Next(); !errors.Is(err, io.EOF); h, err = tr.Next() {
			if err != nil {
				t.Fatal(err)
			}
			modes[h.Name], links[h.Name] = h.Mode, h.Linkname
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if modes["one"] != 0o4755 || modes["two"] != 0o755 || modes["etc/name"] != 0o644 || links["uno"] != "one" {
		t.Errorf("modes are %v, links %v", modes, links)
	}
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}
