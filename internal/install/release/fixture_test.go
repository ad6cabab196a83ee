package release

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// A small release: two components with own code, and three images.
var (
	testComponents = []payload.Component{
		{
			Name: "alpha", Version: "v1.0.0", Source: "example.test/alpha", Dir: "alpha",
			Stamp:    []string{"main.version=v1.0.0"},
			Binaries: []payload.Binary{{Name: "alphad", Package: "."}},
		},
		{
			Name: "beta", Version: "v2.0.0", Source: "example.test/beta", Dir: "beta",
			Binaries: []payload.Binary{{Name: "one", Package: "./cmd/one"}, {Name: "two", Package: "./cmd/two"}},
		},
	}
	testImages = []payload.ImageSpec{
		{
			Name: "alpha", Tag: "v1", Entrypoint: []string{"/bin/alphad"},
			Files: []payload.ImageFile{{Component: "alpha", Binary: "alphad", Path: "/bin/alphad"}},
		},
		{
			Name: "beta", Tag: "v2",
			Files: []payload.ImageFile{{Component: "beta", Binary: "one", Path: "/bin/one"}},
		},
		{
			Name: payload.HostImage, Tag: "v3",
			Files: []payload.ImageFile{
				{Component: "alpha", Binary: "alphad", Path: "/usr/local/bin/alphad"},
				{Component: "beta", Binary: "one", Path: "/usr/local/bin/one"},
				{Component: "beta", Binary: "two", Path: "/opt/two"},
			},
		},
	}
)

// testSources holds the files of the two components.
var testSources = map[string]string{
	"go.mod":       "module example.test/root\n\ngo 1.26.0\n",
	"alpha/go.mod": "module example.test/alpha\n\ngo 1.26.0\n",
	"alpha/main.go": `package main

import "os"

var version = "unknown"

func main() { os.Stdout.WriteString("alpha " + version + "\n") }
`,
	"beta/go.mod":             "module example.test/beta\n\ngo 1.26.0\n",
	"beta/cmd/one/main.go":    "package main\n\nfunc main() { println(1) }\n",
	"beta/cmd/two/main.go":    "package main\n\nimport _ \"embed\"\n\n//go:embed text\nvar text string\n\nfunc main() { println(text) }\n",
	"beta/cmd/two/text":       "two",
	"beta/cmd/two/x_test.go":  "package main\n",
	"beta/cmd/unused/main.go": "package main\n\nfunc main() {}\n",
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// warmCache is the cache for tests that do not count steps; TestMain creates it.
var warmCache string

// testOptions creates a repository with the small release. Its cache may hold
// the release already.
func testOptions(t *testing.T) Options {
	t.Helper()
	root := t.TempDir()
	for name, text := range testSources {
		write(t, filepath.Join(root, name), text)
	}
	return Options{Root: root, Cache: warmCache, Components: testComponents, Images: testImages}
}

// coldOptions returns testOptions with an empty cache.
func coldOptions(t *testing.T) Options {
	t.Helper()
	opts := testOptions(t)
	opts.Cache = t.TempDir()
	return opts
}

// builtOptions returns testOptions with its own cache that holds the release.
func builtOptions(t *testing.T) (Options, *Result) {
	t.Helper()
	opts := testOptions(t)
	build(t, opts)
	opts.Cache = t.TempDir()
	if err := os.CopyFS(opts.Cache, os.DirFS(warmCache)); err != nil {
		t.Fatal(err)
	}
	return opts, build(t, opts)
}

func build(t *testing.T, opts Options) *Result {
	t.Helper()
	res, err := Build(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// testStore builds the small release and opens it.
func testStore(t *testing.T) *Store {
	t.Helper()
	return open(t, build(t, testOptions(t)).Output)
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// snapshot maps every file below dir to its content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
