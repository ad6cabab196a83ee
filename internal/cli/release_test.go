package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/install/release"
)

// releaseFixture writes the part of a release that inspect reads: its index.
func releaseFixture(t *testing.T) string {
	t.Helper()
	about, err := json.Marshal(release.Manifest{
		Version: "v9", Platform: "linux/test", GoVersion: "go9",
		Components: []release.Component{{Name: "thing", Version: "v2", Source: "example.test/thing@v2", Size: 3 << 20}},
		Images:     []release.Image{{Name: "thing", Ref: "r/thing:v2", Digest: "sha256:1", Size: 4 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "annotations": map[string]string{"internal.holdfast.release.json": string(about)}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReleaseCommands(t *testing.T) {
	dir, empty := releaseFixture(t), t.TempDir()
	tests := []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"inspect", "--dir", dir}, ExitOK, []string{"release v9 sha256:", "example.test/thing@v2", "3.0 MB", "r/thing:v2", "4.0 MB"}},
		{[]string{"inspect", "--dir", dir, "-o", "json"}, ExitOK, []string{`"source": "example.test/thing@v2"`, `"digest": "sha256:`}},
		{[]string{"inspect", "--dir", empty}, ExitFailed, []string{"no release in " + empty, "holdfast release build"}},
		{[]string{"inspect", "--dir", dir, "--verify"}, ExitFailed, []string{"release.json"}},
		{[]string{"inspect", "-o", "yaml"}, ExitUsage, []string{"text or json"}},
		{[]string{"build", "--only", "nope"}, ExitFailed, []string{"no image nope", "there are kube-apiserver"}},
		{[]string{"push", "--dir", dir}, ExitUsage, []string{"takes the arguments REGISTRY/REPOSITORY:TAG, got 0"}},
		{[]string{"push", "--dir", dir, "no-reference"}, ExitFailed, []string{"REGISTRY/REPOSITORY:TAG"}},
		{[]string{"serve", "--cert", "x"}, ExitUsage, []string{"--cert and --key: must be given together"}},
		{[]string{"serve", "--dir", dir, "--listen", "nonsense"}, ExitFailed, []string{"serve the release", "nonsense"}},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Setenv("HOLDFAST_CACHE", t.TempDir())
			var out bytes.Buffer
			code := Run(t.Context(), Streams{In: strings.NewReader(""), Out: &out, Err: &out}, append([]string{"release"}, test.args...))
			if code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, out.String())
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in the output:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestEveryReleaseCommandShowsHowToUseIt(t *testing.T) {
	for _, verb := range []string{"build", "inspect", "push", "serve"} {
		var out bytes.Buffer
		Run(t.Context(), Streams{Out: &out, Err: &out}, []string{"release", verb, "--help"})
		if !strings.Contains(out.String(), "Examples:\n  holdfast release "+verb) {
			t.Errorf("%s: no example in\n%s", verb, out.String())
		}
	}
}
