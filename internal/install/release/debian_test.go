package release

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

func TestOnlyTheDistributionsOwnSourcesAreUsed(t *testing.T) {
	const foreignLine = "deb https://packages.example.test/apt cloud-bookworm main\n"
	tests := []struct {
		name  string
		files map[string]string
		want  string
		err   string
	}{
		{
			name: "deb822, with a foreign repository beside it",
			files: map[string]string{
				"sources.list.d/debian.sources": "# comment\nTypes: deb\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\nTypes: deb\nURIs: http://mirror.test/security\nSuites: bookworm-security\nComponents: main\n",
				"sources.list.d/node.sources":   "Types: deb\nURIs: http://node.test\nSuites: nodistro\nComponents: main\n",
				"sources.list.d/cloud.list":     foreignLine,
			},
			want: "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\n" +
				"Types: deb\nURIs: http://mirror.test/security\nSuites: bookworm-security\nComponents: main\n",
		},
		{
			name: "one-line form with a key",
			files: map[string]string{
				"sources.list": "# deb http://old.test bookworm main\ndeb [arch=amd64 signed-by=/key.gpg] http://mirror.test/debian bookworm main contrib\ndeb-src http://mirror.test/debian bookworm main\n",
			},
			want: "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main contrib\nSigned-By: /key.gpg\n",
		},
		{
			name:  "switched off",
			files: map[string]string{"sources.list.d/debian.sources": "Enabled: no\nTypes: deb\nURIs: http://m.test\nSuites: bookworm\nComponents: main\n"},
			err:   "names no repository of bookworm",
		},
		{name: "foreign alone", files: map[string]string{"sources.list": foreignLine}, err: "names no repository of bookworm"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				write(t, filepath.Join(dir, name), text)
			}
			got, err := readSources(dir, "bookworm")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q in it", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, test.want)
			}
		})
	}
}

func TestTheDistributionIsNamedByOSRelease(t *testing.T) {
	for text, want := range map[string]string{
		"NAME=x\nVERSION_CODENAME=bookworm\n": "bookworm",
		"VERSION_CODENAME=\"noble\"\nID=u\n":  "noble",
		"NAME=Fedora\n":                       "",
	} {
		path := filepath.Join(t.TempDir(), "os-release")
		write(t, path, text)
		got, err := readCodename(path)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestSourcesAreForTheirOwnerOnlyAndInNoError(t *testing.T) {
	d := &distribution{dir: t.TempDir(), sources: "Types: deb\nURIs: https://clerk:hush@mirror.example.test\nSuites: x\nComponents: main\n"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // apt must not be called
	if err := d.update(ctx); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	info, err := os.Stat(filepath.Join(d.dir, "sources.list.d", "distribution.sources"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
}

func TestPackageNamesComeFromTheirFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]debPackage{
		"libgmp10_2%3a6.2.1+dfsg1-1.1_amd64.deb": {Name: "libgmp10", Version: "2:6.2.1+dfsg1-1.1"},
		"netbase_6.4_all.deb":                    {Name: "netbase", Version: "6.4"},
	} {
		write(t, filepath.Join(dir, name), "x")
		got, err := describeDeb(filepath.Join(dir, name))
		if err != nil || got.Name != want.Name || got.Version != want.Version || got.Digest == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := describeDeb(filepath.Join(dir, "nonsense.deb")); err == nil {
		t.Error("a file without a version was taken")
	}
}

// packageTar returns the content of a package: name to data, or to "-> target".
func packageTar(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for name, data := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(data))}
		if target, ok := strings.CutPrefix(data, "-> "); ok {
			h.Typeflag, h.Linkname, h.Size, data = tar.TypeSymlink, target, 0, ""
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	return &out
}

func testTree(t *testing.T, packages map[string]map[string]string) *tree {
	t.Helper()
	tr := &tree{files: map[string]treeFile{}}
	for name, files := range packages {
		if err := tr.add(name, packageTar(t, files)); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func pathsOf(entries []entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.path)
	}
	slices.Sort(out)
	return out
}

func TestAPickTakesLinksTargetsAndNothingElse(t *testing.T) {
	tr := testTree(t, map[string]map[string]string{
		"shell": {"./bin/dash": "script", "./bin/sh": "-> dash", "./usr/share/doc/dash/README": "text"},
		"other": {"./usr/sbin/other": "script"},
		"plug":  {"./lib/arch/plug/a.so": "a", "./lib/arch/plug/b.so": "b", "./lib/arch/plug/notes": "c"},
	})
	entries, packages, err := tr.pick([]string{"/usr/bin/sh", "/usr/lib/*/plug/*.so"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pathsOf(entries), []string{"/usr/bin/dash", "/usr/bin/sh", "/usr/lib/arch/plug/a.so", "/usr/lib/arch/plug/b.so"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
	if want := []string{"plug", "shell"}; !slices.Equal(packages, want) {
		t.Errorf("packages %q, want %q", packages, want)
	}
	_, _, err = tr.pick([]string{"/usr/bin/zsh", "/usr/lib/none/*"})
	if err == nil || !strings.Contains(err.Error(), "/usr/bin/zsh, /usr/lib/none/*") {
		t.Errorf("error %v does not name what is missing", err)
	}
}

func TestAPickTakesTheLibrariesThatAProgramLoads(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("this machine has no /bin/sh to look into:", err)
	}
	program := map[string]string{"bin/sh": string(shell)}
	_, _, err = testTree(t, map[string]map[string]string{"p": program}).pick([]string{"/usr/bin/sh"})
	if err == nil || !strings.Contains(err.Error(), "libc.so.6") || !strings.Contains(err.Error(), "ld-linux") {
		t.Skip("this machine's /bin/sh is not linked to the usual C library:", err)
	}
	_, names, _ := strings.Cut(err.Error(), "the packages do not contain ")
	libs := map[string]string{}
	for name := range strings.SplitSeq(names, ", ") {
		if path, ok := strings.CutPrefix(name, "/"); ok {
			libs[path] = "loader"
			continue
		}
		libs["lib/some-arch/"+name] = "-> " + name + ".1"
		libs["lib/some-arch/"+name+".1"] = "library"
	}
	entries, packages, err := testTree(t, map[string]map[string]string{"p": program, "libs": libs}).pick([]string{"/usr/bin/sh"})
	if err != nil || len(entries) != 1+len(libs) || !slices.Equal(packages, []string{"libs", "p"}) {
		t.Errorf("took %q of %q, %v", pathsOf(entries), packages, err)
	}
}

// A self-made package covers the whole way from a .deb to a layer.
func TestPackagesBecomeALayer(t *testing.T) {
	dir := t.TempDir()
	debs := debFixture(t, dir)
	spec := payload.ImageSpec{
		Name: "x", Packages: []string{"tool"}, Keep: []string{"/usr/bin/tool"},
		Links: map[string]string{"/usr/bin/alias": "tool"},
	}
	entries, used, err := packageEntries(t.Context(), dir, debs, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/usr/bin/tool", "/usr/bin/alias", "/bin", "/lib64", "/tmp", "/run", "/etc/passwd"} {
		if !slices.Contains(pathsOf(entries), want) {
			t.Errorf("%s is not in the layer", want)
		}
	}
	if !slices.Equal(used, []string{"tool"}) {
		t.Errorf("packages %q", used)
	}
}
