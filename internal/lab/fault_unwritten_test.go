package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// noTimer is an option of ext4. By itself ext4 writes its journal 5 s after a change, and on a busy machine a
// test may need longer from its change to the cut. With it ten minutes pass first, so only a sync of
// the whole machine makes durable what the test did not sync.
const noTimer = "commit=600"

// TestAPowerCutLosesWhatNobodySynced: a file whose writer asked for it is there after the cut,
// and neither is a file that nobody synced nor a name that nobody made durable.
func TestAPowerCutLosesWhatNobodySynced(t *testing.T) {
	needLab(t)
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "disk.img")
	if err := makeFileSystem(t.Context(), image, 16<<20); err != nil {
		t.Fatal(err)
	}
	plug := func() {
		t.Helper()
		if _, err := host.Run(t.Context(), host.Command("mount", "-o", "loop,"+noTimer, image, dir)); err != nil {
			t.Fatal(err)
		}
	}
	plug()
	t.Cleanup(func() {
		if err := letGo(context.WithoutCancel(t.Context()), dir, image); err != nil {
			t.Error(err)
		}
	})
	name := func(s string) string { return filepath.Join(dir, s) }
	if err := host.WriteFileAtomic(name("durable"), []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name("unsynced"), []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(name("durable"))
	if err != nil {
		t.Fatal(err)
	}

	if err := loseUnwritten(dir); err != nil {
		t.Fatal(err)
	}
	if err := host.SyncDir(dir); !errors.Is(err, unix.EIO) {
		t.Errorf("a disk without power takes a sync: %v", err)
	}
	// A process of the host that dies a moment later is waited for.
	time.AfterFunc(4*hangPause, func() { _ = open.Close() })
	if err := letGo(t.Context(), dir, image); err != nil {
		t.Fatal(err)
	}
	plug()
	if data, err := os.ReadFile(name("durable")); err != nil || string(data) != "word" {
		t.Errorf("what was synced is %q, %v", data, err)
	}
	if _, err := os.Stat(name("unsynced")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody synced is there: %v", err)
	}
}
