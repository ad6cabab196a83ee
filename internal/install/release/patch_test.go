package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// patchedOptions returns the small release with a third component, which
// consists of a third-party module and a patch for it.
func patchedOptions(t *testing.T, p payload.Patch) Options {
	t.Helper()
	opts := testOptions(t)
	opts.Cache = t.TempDir()
	write(t, filepath.Join(opts.Root, "gamma", "go.mod"), "module example.test/root/gamma\n\ngo 1.26.0\n\ntool example.test/gamma/cmd/gammad\n\nrequire example.test/gamma v1.0.0\n\nreplace example.test/gamma v1.0.0 => ./upstream\n")
	write(t, filepath.Join(opts.Root, "gamma", "upstream", "go.mod"), "module example.test/gamma\n\ngo 1.26.0\n")
	write(t, filepath.Join(opts.Root, "gamma", "upstream", "cmd", "gammad", "main.go"), "package main\n\nfunc main() { println(\"gamma\") }\n")
	opts.Components = append(slices.Clone(opts.Components), payload.Component{
		Name: "gamma", Version: "v1.0.0", Source: "example.test/gamma", Dir: "gamma",
		Binaries: []payload.Binary{{Name: "gammad", Package: "example.test/gamma/cmd/gammad"}},
		Patches:  []payload.Patch{p},
	})
	opts.Images = append(slices.Clone(opts.Images), payload.ImageSpec{
		Name: "gamma", Tag: "v1", Files: []payload.ImageFile{{Component: "gamma", Binary: "gammad", Path: "/bin/gammad"}},
	})
	return opts
}

func TestAPatchIsInTheProgramAndNotInItsSource(t *testing.T) {
	opts := patchedOptions(t, payload.Patch{File: "cmd/gammad/main.go", Old: `"gamma"`, New: `"mended"`})
	before := snapshot(t, opts.Root)
	res := build(t, opts)
	found, err := filepath.Glob(filepath.Join(opts.Cache, "steps", "go-*", "gammad"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	out, err := exec.CommandContext(t.Context(), found[0]).CombinedOutput()
	if err != nil || string(out) != "mended\n" {
		t.Errorf("it says %q, %v", out, err)
	}
	for path, text := range before {
		if now := snapshot(t, opts.Root)[path]; now != text {
			t.Errorf("%s is another one:\n%s", path, now)
		}
	}
	opts.Cache = t.TempDir()
	if again := build(t, opts); again.Manifest.Digest != res.Manifest.Digest {
		t.Error("the same patch gave another release")
	}
}

func TestAPatchThatDoesNotFitEndsTheBuild(t *testing.T) {
	for name, p := range map[string]payload.Patch{
		"gone":  {File: "cmd/gammad/main.go", Old: "no such text", New: "x"},
		"twice": {File: "cmd/gammad/main.go", Old: "main", New: "x"},
		"file":  {File: "other.go", Old: "x", New: "y"},
	} {
		_, err := Build(t.Context(), patchedOptions(t, p))
		if err == nil || !strings.Contains(err.Error(), p.File) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A patch may remove an import that nobody can download. The files that go writes
// by itself would ask for it.
func TestTidyAsksForNothingThatAPatchTakesOut(t *testing.T) {
	opts := patchedOptions(t, payload.Patch{File: "cmd/gammad/main.go", Old: "import _ \"example.test/nobodys\"\n"})
	gamma := opts.Components[len(opts.Components)-1]
	upstream := filepath.Join(opts.Root, "gamma", "upstream")
	write(t, filepath.Join(upstream, "go.mod"), "module example.test/gamma\n\ngo 1.26.0\n\nrequire example.test/used v1.0.0\n")
	write(t, filepath.Join(upstream, "cmd", "gammad", "main.go"),
		"package main\n\nimport _ \"example.test/nobodys\"\nimport \"example.test/used\"\n\nfunc main() { println(used.Word) }\n")
	write(t, filepath.Join(opts.Root, "gamma", "used", "go.mod"), "module example.test/used\n\ngo 1.26.0\n")
	write(t, filepath.Join(opts.Root, "gamma", "used", "used.go"), "package used\n\nconst Word = \"first\"\n")
	mod := filepath.Join(opts.Root, "gamma", "go.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mod, string(text)+"\nreplace example.test/used v1.0.0 => ./used\n")
	if err := Tidy(t.Context(), opts.Root, gamma); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(mod)
	if err != nil || !strings.Contains(string(text), "example.test/used v1.0.0 // indirect") || strings.Contains(string(text), patchedSource) {
		t.Errorf("%v\n%s", err, text)
	}
	first, err := Programs(t.Context(), opts, gamma)
	if err != nil {
		t.Fatal(err)
	}
	// Files beside go.mod are compiled too, and none of them is in go.sum.
	write(t, filepath.Join(opts.Root, "gamma", "used", "used.go"), "package used\n\nconst Word = \"second\"\n")
	second, err := Programs(t.Context(), opts, gamma)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{first["gammad"]: "first\n", second["gammad"]: "second\n"} {
		if out, err := exec.CommandContext(t.Context(), path).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("it says %q, want %q: %v", out, want, err)
		}
	}
}
