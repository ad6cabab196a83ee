package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImagesOfAnInstallationAreDurable: a power cut after an installation must not leave layers
// without their files.
func TestImagesOfAnInstallationAreDurable(t *testing.T) {
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	if err := os.WriteFile(filepath.Join(dir, "ctr"), []byte("#!/bin/sh\necho \"asked $*\" > "+said+"; cat >> "+said+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	if err := importImages(t.Context(), strings.NewReader("archive")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(said)
	words := strings.Fields(string(got))
	if err != nil || !slices.Contains(words, "--sync-fs") || words[len(words)-1] != "archive" {
		t.Errorf("it is asked %q, %v", got, err)
	}
}
