package releases

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clientSays has the client of containerd be a script. It returns the file into which the script
// may write.
func clientSays(t *testing.T, script string) (said string) {
	t.Helper()
	dir := t.TempDir()
	said = filepath.Join(dir, "said")
	if err := os.WriteFile(filepath.Join(dir, "ctr"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("SAID", said)
	return said
}

// TestImagesAreDurableOnceTheyCountAsWhole: a power cut after a fetch must not leave layers
// without their files.
func TestImagesAreDurableOnceTheyCountAsWhole(t *testing.T) {
	said := clientSays(t, `echo "asked $*" > "$SAID"; cat >> "$SAID"`)
	if err := (containerd{}).Import(t.Context(), strings.NewReader("archive")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(said)
	words := strings.Fields(string(got))
	if err != nil || !slices.Contains(words, "--sync-fs") || words[len(words)-1] != "archive" {
		t.Errorf("it is asked %q, %v", got, err)
	}
}
