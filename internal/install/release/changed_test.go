package release

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWhatSomebodyChangedOfAReleaseIsListed(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mustPlace(t, root, s)
	if err := Switch(root, s.manifest.Digest); err != nil {
		t.Fatal(err)
	}
	if got, err := Changed(root, s.manifest.Digest); err != nil || got == nil || len(got) != 0 {
		t.Fatalf("%v %v", got, err)
	}
	r, err := on(root).read(s.manifest.Digest[len("sha256:"):])
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, f := range r.files()[:2] {
		path := filepath.Join(root, f.Path)
		if i == 0 { // somebody's own file in the place of the link
			path = filepath.Join(on(root).at(s.manifest.Digest[len("sha256:"):]), f.Path)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, path, "mine")
		want = append(want, f.Path)
	}
	if got, err := Changed(root, s.manifest.Digest); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
}
