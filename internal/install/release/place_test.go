package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// secondStore builds a release that has one file less than that of testStore,
// another content of one, and one more.
func secondStore(t *testing.T) *Store {
	t.Helper()
	opts := testOptions(t)
	image := testImages[2]
	image.Files = []payload.ImageFile{
		{Component: "alpha", Binary: "alphad", Path: "/usr/local/bin/alphad"},
		{Component: "alpha", Binary: "alphad", Path: "/usr/local/bin/one"},
		{Component: "beta", Binary: "two", Path: "/usr/sbin/fence_new"},
	}
	opts.Images = []payload.ImageSpec{testImages[0], image}
	return open(t, build(t, opts).Output)
}

// thirdStore builds a release with a single program.
func thirdStore(t *testing.T) *Store {
	t.Helper()
	opts := testOptions(t)
	image := testImages[2]
	image.Files = image.Files[:1]
	opts.Images = []payload.ImageSpec{testImages[0], image}
	return open(t, build(t, opts).Output)
}

// allPaths are the paths of the programs of all three releases.
var allPaths = []string{"/opt/two", "/usr/local/bin/alphad", "/usr/local/bin/one", "/usr/sbin/fence_new"}

// programs maps each path to the digest of the program that a host would start
// there, without those that are not there.
func programs(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range allPaths {
		at := filepath.Join(root, path)
		if target, err := os.Readlink(at); err == nil {
			if target != payload.CurrentRelease+path {
				t.Fatalf("%s leads to %s", path, target)
			}
			at = filepath.Join(root, target)
		}
		digest, _, err := digestFile(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out[path] = digest
	}
	return out
}

// brings maps each path of a release's programs to its digest.
func (s *Store) brings() map[string]string {
	img, _ := s.manifest.Image(payload.HostImage)
	out := map[string]string{}
	for _, f := range img.Files {
		out[f.Path] = f.Digest
	}
	return out
}

func (s *Store) name() string { return strings.TrimPrefix(s.manifest.Digest, "sha256:") }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustPlace(t *testing.T, root string, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		check(t, s.Place(t.Context(), root))
	}
}

// clean fails the test if something unfinished is left below a root.
func clean(t *testing.T, root string) {
	t.Helper()
	check(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasSuffix(name, unfinished) || strings.HasPrefix(name, ".") {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

func TestAReleaseIsPlacedWholeAndWrittenOnce(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mustPlace(t, root, s)
	dir := on(root).at(s.name())
	for path := range s.brings() {
		if info, err := os.Lstat(filepath.Join(dir, path)); err != nil || info.Mode() != 0o555 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if got := programs(t, root); len(got) != 0 {
		t.Errorf("before any switch the host has %v", got)
	}
	d, writes := on(root), 0
	d.effect = func(do func() error) error { writes++; return do() }
	again := func(what string, want int) {
		t.Helper()
		writes = 0
		check(t, d.place(t.Context(), s))
		if writes != want {
			t.Errorf("%s: %d writes, want %d", what, writes, want)
		}
		check(t, Verify(root, s.manifest.Digest))
		clean(t, root)
	}
	const folder, one, record = 1, 1, 1 // folder: that of all releases is looked for each time
	two := filepath.Join(dir, "opt/two")
	again("nothing has changed", folder)
	check(t, os.Chmod(two, 0o755))
	write(t, two, "changed by hand")
	again("a changed file", folder+one+record)
	check(t, os.Remove(filepath.Join(dir, "usr/local/bin/one")))
	again("a lost file", folder+one+record)
	check(t, os.Chmod(two, 0o644))
	again("a lost mode", folder+one+record)
	write(t, filepath.Join(dir, "usr/local/bin/.one.12"), "left by a repair that was cut off")
	check(t, os.Remove(two))
	again("a left file", folder+one+one+record)
	check(t, os.Remove(filepath.Join(dir, manifestFile)))
	write(t, filepath.Join(dir, manifestFile), "{ damaged")
	again("a damaged record", folder+3*one+record)
}

func TestARepairDoesNotDisturbARunningProgram(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mustPlace(t, root, s)
	path := filepath.Join(on(root).at(s.name()), "opt/two")
	check(t, os.Chmod(path, 0o755))
	write(t, path, "old")
	running, err := os.Open(path)
	check(t, err)
	defer func() { _ = running.Close() }()
	mustPlace(t, root, s)
	if data, err := io.ReadAll(running); err != nil || string(data) != "old" {
		t.Errorf("the open file now reads %d bytes, %v", len(data), err)
	}
}

func TestAPlaceCutAtAnyEffectIsFinishedByTheNext(t *testing.T) {
	s := testStore(t)
	whole, count := t.TempDir(), powercut.Cut{}
	d := on(whole)
	d.effect = count.Effect
	check(t, d.place(t.Context(), s))
	if count.Effects != 6 {
		t.Fatalf("%d effects, want folder, three programs, record and name", count.Effects)
	}
	for at := 1; at <= count.Effects; at++ {
		for _, after := range []bool{false, true} {
			root, cut := t.TempDir(), powercut.Cut{At: at, After: after}
			d := on(root)
			d.effect = cut.Effect
			if err := d.place(t.Context(), s); !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			named := host.Exists(d.at(s.name()))
			if named != (at == count.Effects && after) {
				t.Errorf("cut at %d (after %v): the release has its name: %v", at, after, named)
			}
			if err := Switch(root, s.manifest.Digest); (err == nil) != named {
				t.Errorf("cut at %d (after %v): a switch to it: %v", at, after, err)
			}
			mustPlace(t, root, s)
			check(t, Verify(root, s.manifest.Digest))
			clean(t, root)
		}
	}
}

func TestAFlippedByteIsFound(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mustPlace(t, root, s)
	check(t, Verify(root, s.manifest.Digest))
	path := filepath.Join(on(root).at(s.name()), "usr/local/bin/one")
	info, err := os.Stat(path)
	check(t, err)
	check(t, os.Chmod(path, 0o755))
	damage(t, path)
	check(t, os.Chmod(path, 0o555))
	check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	err = Verify(root, s.manifest.Digest)
	if err == nil || !strings.Contains(err.Error(), "usr/local/bin/one is damaged") || strings.Contains(err.Error(), "alphad") {
		t.Errorf("error %v", err)
	}
	if err := Verify(root, secondStore(t).manifest.Digest); err == nil {
		t.Error("a release that is not there is whole")
	}
}

// mountAt mounts an empty file system in memory as the folder of the releases.
func mountAt(t *testing.T, root string, flags uintptr, size string) {
	t.Helper()
	netnstest.NeedRoot(t)
	dir := on(root).at()
	check(t, os.MkdirAll(dir, 0o755))
	check(t, unix.Mount("none", dir, "tmpfs", flags, "size="+size))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestAFullDiskIsToldWithWhatIsNeeded(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	var size uint64
	img, _ := s.manifest.Image(payload.HostImage)
	for _, f := range img.Files {
		size += uint64(f.Size)
	}
	d, free := on(root), size // the programs alone, without their folders
	d.free = func(string) (uint64, error) { return free, nil }
	want := fmt.Sprintf("the release needs %d MiB in %s, and %d MiB are free there: make room", (size+1<<20+3*blockSize)>>20+1, d.at(), size>>20)
	if err := d.place(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if names, err := os.ReadDir(d.at()); err != nil || len(names) != 0 {
		t.Errorf("it has %v, %v", names, err)
	}
	free += 2 << 20
	check(t, d.place(t.Context(), s))
}

func TestADiskThatBecomesFullKeepsNothingUnfinished(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mountAt(t, root, 0, "32m")
	d, n := on(root), 0
	other := d.at("other")
	d.effect = func(do func() error) error {
		if n++; n == 3 { // the second program
			f, err := os.Create(other)
			check(t, err)
			if _, err := io.Copy(f, endless{}); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("fill the disk: %v", err)
			}
			check(t, f.Close())
		}
		return do()
	}
	err := d.place(t.Context(), s)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("error %v", err)
	}
	clean(t, root)
	check(t, os.Remove(other))
	mustPlace(t, root, s)
	check(t, Verify(root, s.manifest.Digest))
}

func TestAFolderInWhichNoProgramRunsIsRefused(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mountAt(t, root, unix.MS_NOEXEC, "32m")
	if err := s.Place(t.Context(), root); err == nil || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("error %v", err)
	}
}

func TestAReleaseCannotWriteOutsideOfTheHost(t *testing.T) {
	for path, want := range map[string]string{
		"/../evil": "no clean absolute path", "relative": "no clean absolute path", "/a/../../b": "no clean absolute path",
		"/": "no clean absolute path", "": "no clean absolute path",
		"/opt": "own", "/opt/holdfast/releases": "own", "/opt/holdfast/releases/current": "own", "/release.json": "own",
	} {
		s, root := testStore(t), filepath.Join(t.TempDir(), "root")
		for i := range s.manifest.Images {
			s.manifest.Images[i].Files[0].Path = path
		}
		if err := s.Place(t.Context(), root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("path %q: error %v", path, err)
		}
		if _, err := os.Stat(root); err == nil {
			t.Errorf("path %q: something was written", path)
		}
	}
	for _, image := range payload.Images() {
		var files []File
		for _, f := range image.Files {
			files = append(files, File{Path: f.Path})
		}
		if err := checkPaths(files); image.Name == payload.HostImage && err != nil {
			t.Error(err)
		}
	}
}

func TestADamagedReleaseIsNotPlaced(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	d, _ := s.image(payload.HostImage)
	m, err := s.imageManifest(d)
	check(t, err)
	path, _ := blobPath(s.dir, m.Layers[0].Digest.String())
	damage(t, path)
	if err := s.Place(t.Context(), root); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v", err)
	}
	clean(t, root)
	if host.Exists(on(root).at(s.name())) {
		t.Error("the damaged release is in place")
	}
}

func TestAProgramHasTheLabelThatItWouldInheritAtItsPath(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	const context = "system_u:object_r:bin_t:s0"
	check(t, os.MkdirAll(filepath.Join(root, "usr/local"), 0o755))
	if err := host.SetLabel(filepath.Join(root, "usr/local"), []byte(context)); err != nil {
		t.Skipf("NOT TESTED: this file system takes no SELinux label: %v", err)
	}
	mustPlace(t, root, s)
	for path, want := range map[string]string{"usr/local/bin/one": context, "opt/two": string(host.Label(filepath.Join(root, "opt")))} {
		if got := string(host.Label(filepath.Join(on(root).at(s.name()), path))); got != want {
			t.Errorf("%s has label %q, want %q", path, got, want)
		}
	}
}

func TestTwoProgramsDoNotChangeTheReleasesOfAHostAtOnce(t *testing.T) {
	s, root := testStore(t), t.TempDir()
	mustPlace(t, root, s)
	unlock, err := on(root).open()
	check(t, err)
	for what, err := range map[string]error{
		"place": s.Place(t.Context(), root), "switch": Switch(root, s.manifest.Digest), "remove": Remove(root, s.manifest.Digest),
	} {
		if err == nil || !strings.Contains(err.Error(), "another program") {
			t.Errorf("%s: %v", what, err)
		}
	}
	unlock()
	check(t, Switch(root, s.manifest.Digest))
	if got := programs(t, root); !maps.Equal(got, s.brings()) {
		t.Errorf("the host has %v", got)
	}
}
