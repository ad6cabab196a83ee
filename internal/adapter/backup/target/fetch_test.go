package target

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// stored is a target with one file in it, and its size and digest.
func stored(t *testing.T, where backup.Target, name string, size int) (Target, []byte, backup.File) {
	t.Helper()
	to, err := Open(t.Context(), where)
	must(t, err)
	t.Cleanup(func() { must(t, to.Close()) })
	data, want := contents(size)
	must(t, SendFrom(t.Context(), to, name, bytes.NewReader(data), want, Limits{Idle: time.Minute}))
	return to, data, want
}

// cutting is a target whose connections break after some bytes.
type cutting struct {
	Target
	after int64
	gets  *int
}

func (c cutting) Get(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	*c.gets++
	r, err := c.Target.Get(ctx, name)
	return &cut{r, c.after}, err
}

func (cutting) Close() error { return nil }

var errCut = errors.New("the connection was reset")

type cut struct {
	io.ReadSeekCloser
	left int64
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errCut
	}
	n, err := c.ReadSeekCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func fetching(to Target, name, file string, want backup.File) Fetch {
	return Fetch{
		Open: func(context.Context) (Target, error) { return to, nil }, Name: name, File: file, Want: want, Limits: Limits{Idle: time.Minute},
		Say: func(int64) {}, Broke: func(int, error) {}, Wait: func(context.Context, int) error { return nil },
	}
}

func TestAFetchGoesOnWhereTheConnectionBrokeAtEachKindOfTarget(t *testing.T) {
	for kind, where := range everyTarget(t) {
		t.Run(kind, func(t *testing.T) {
			to, data, want := stored(t, where, "site/cp-1/x", 100_000)
			gets, told := 0, int64(0)
			f := fetching(cutting{to, 30_000, &gets}, "site/cp-1/x", filepath.Join(t.TempDir(), "x"), want)
			f.Say = func(done int64) { told = done }
			must(t, f.Run(t.Context()))
			got, err := os.ReadFile(f.File)
			must(t, err)
			info, err := os.Stat(f.File)
			must(t, err)
			if !bytes.Equal(got, data) || gets != 4 || told != want.Size || info.Mode().Perm() != 0o600 {
				t.Errorf("%d bytes after %d connections, %d told, mode %s", len(got), gets, told, info.Mode())
			}
			if _, err := os.Lstat(f.Part()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a part is left: %v", err)
			}
		})
	}
}

func TestALaterFetchGoesOnWithWhatAnEarlierOneHas(t *testing.T) {
	to, data, want := stored(t, directoryTarget(t), "x", 100_000)
	file, gets := filepath.Join(t.TempDir(), "x"), 0
	f := fetching(cutting{to, 0, &gets}, "x", file, want)
	must(t, os.WriteFile(f.Part(), data[:60_000], 0o600))
	if err := f.Run(t.Context()); !errors.Is(err, errCut) || gets != 1 {
		t.Fatalf("%v after %d connections: what fails before a byte is not tried again", err, gets)
	}
	f = fetching(cutting{to, 40_000, &gets}, "x", file, want)
	must(t, f.Run(t.Context()))
	if gets != 2 {
		t.Errorf("%d connections", gets)
	}
}

func TestAFetchEndsOnceNoByteHasMovedForFiveTries(t *testing.T) {
	to, _, want := stored(t, directoryTarget(t), "x", 100)
	gets := 0
	left := []int64{10, 0, 0, 0, 0, 0, 0, 0, 0}
	f := fetching(nil, "x", filepath.Join(t.TempDir(), "x"), want)
	f.Open = func(context.Context) (Target, error) { return cutting{to, left[gets], &gets}, nil }
	if err := f.Run(t.Context()); !errors.Is(err, errCut) || gets != 1+mostTries {
		t.Errorf("%v after %d connections", err, gets)
	}
}

func TestWhatIsNotTheFileOfTheCatalogueIsNotKept(t *testing.T) {
	to, data, want := stored(t, directoryTarget(t), "x", 1000)
	file := filepath.Join(t.TempDir(), "x")
	other := want
	other.SHA256 = "00"
	if err := fetching(to, "x", file, other).Run(t.Context()); !errors.Is(err, ErrNotTheFile) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	// An earlier fetch may have left bytes of another file: then all of it is fetched.
	f := fetching(to, "x", file, want)
	must(t, os.WriteFile(f.Part(), bytes.Repeat([]byte("o"), 500), 0o600))
	must(t, f.Run(t.Context()))
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestWhatLiesAtATargetIsListedAndWhatDoesNotIsSaidToBeMissing(t *testing.T) {
	for kind, where := range everyTarget(t) {
		to, data, _ := stored(t, where, "site/cp-1/x.tar.age", 100)
		must(t, to.Put(t.Context(), "site-2/y.json", bytes.NewReader(data), int64(len(data))))
		for under, want := range map[string][]string{"site": {"site/cp-1/x.tar.age"}, "": {"site-2/y.json", "site/cp-1/x.tar.age"}, "none": nil} {
			files, err := List(t.Context(), to, under, Limits{Idle: time.Minute})
			must(t, err)
			var got []string
			for name, size := range files {
				if filepath.Base(name) == backup.DefaultMarker {
					continue
				}
				if size != 100 {
					t.Errorf("%s: %s has %d bytes", kind, name, size)
				}
				got = append(got, name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: under %q there are %q, want %q", kind, under, got, want)
			}
		}
		if _, err := Read(t.Context(), to, "none", 10, Limits{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
