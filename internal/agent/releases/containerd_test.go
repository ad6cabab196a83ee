package releases

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/payload"
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

// hung is a containerd that takes connections, and never answers.
type hung struct{ Images }

func (hung) List(ctx context.Context) (map[string]Held, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestAContainerdThatHangsHoldsNobody: whoever asks decides about a way back, and others wait for
// it.
func TestAContainerdThatHangsHoldsNobody(t *testing.T) {
	w := newWorld(t)
	w.Images = hung{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := w.Whole(t.Context()); got.Known || time.Since(began) > 15*time.Second {
			t.Errorf("%+v after %s", got, time.Since(began))
		}
	})
}

// TestWhatLiesThereIsKnownWithoutContainerd: layout and programs, of which each one counts.
func TestWhatLiesThereIsKnownWithoutContainerd(t *testing.T) {
	w := newWorld(t)
	w.Images = hung{}
	old, next, _ := digests(t)
	if !w.Placed(old) || w.Placed(next) {
		t.Errorf("the old release: %v, one that was never fetched: %v", w.Placed(old), w.Placed(next))
	}
	programs := filepath.Join(w.Root, payload.ReleasesDir, strings.TrimPrefix(old, "sha256:"))
	for what, dir := range map[string]string{"programs": programs, "the layout": w.Installed[0]} {
		away := dir + ".away"
		if err := os.Rename(dir, away); err != nil {
			t.Fatal(err)
		}
		if w.Placed(old) {
			t.Errorf("without %s", what)
		}
		if err := os.Rename(away, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImagesAreDurableOnceTheyCountAsWhole: a power cut after a fetch must not leave layers
// without their files.
func TestImagesAreDurableOnceTheyCountAsWhole(t *testing.T) {
	said := clientSays(t, `echo "asked $*" > "$SAID"; cat >> "$SAID"`)
	if err := (Containerd{}).Import(t.Context(), strings.NewReader("archive")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(said)
	words := strings.Fields(string(got))
	if err != nil || !slices.Contains(words, "--sync-fs") || words[len(words)-1] != "archive" {
		t.Errorf("it is asked %q, %v", got, err)
	}
}
