package release

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// runs fails the test unless these releases are the current and the previous
// one, and the host starts the programs of the current one and no others.
func runs(t *testing.T, root string, now, was *Store) {
	t.Helper()
	current, err := Current(root)
	if err != nil || current != now.manifest.Digest {
		t.Errorf("current is %q, %v", current, err)
	}
	want := ""
	if was != nil {
		want = was.manifest.Digest
	}
	if previous, err := Previous(root); err != nil || previous != want {
		t.Errorf("previous is %q, %v; want %q", previous, err, want)
	}
	if got := programs(t, root); !maps.Equal(got, now.brings()) {
		t.Errorf("the host has %v", got)
	}
}

// onlyWhole returns effects that fail the test if a host has the programs of none
// of the releases, or of several.
func onlyWhole(t *testing.T, root string, releases ...*Store) func(func() error) error {
	return func(do func() error) error {
		err := do()
		got := programs(t, root)
		if !slices.ContainsFunc(releases, func(s *Store) bool { return maps.Equal(got, s.brings()) }) {
			t.Errorf("a moment with a mixture: %v", got)
		}
		return err
	}
}

func TestOneSwitchChangesAllProgramsTogether(t *testing.T) {
	first, second, root := testStore(t), secondStore(t), t.TempDir()
	if current, err := Current(root); err != nil || current != "" {
		t.Errorf("current is %q, %v", current, err)
	}
	if err := Switch(root, first.manifest.Digest); err == nil || !strings.Contains(err.Error(), "is not on this host") {
		t.Errorf("a switch to a release that is not there: %v", err)
	}
	mustPlace(t, root, first, second)
	check(t, Switch(root, first.manifest.Digest))
	runs(t, root, first, nil)
	d := on(root)
	d.effect = onlyWhole(t, root, first, second)
	for range 2 { // the second time changes nothing
		check(t, d.switchTo(second.manifest.Digest, ""))
		runs(t, root, second, first)
	}
	check(t, d.switchTo(first.manifest.Digest, ""))
	runs(t, root, first, second)
	clean(t, root)
}

func TestADamagedReleaseIsNotChosen(t *testing.T) {
	first, second, root := testStore(t), secondStore(t), t.TempDir()
	mustPlace(t, root, first, second)
	check(t, Switch(root, first.manifest.Digest))
	check(t, os.Remove(filepath.Join(on(root).at(second.name()), "usr/sbin/fence_new")))
	err := Switch(root, second.manifest.Digest)
	if err == nil || !strings.Contains(err.Error(), "/usr/sbin/fence_new; put the release there again") {
		t.Errorf("error %v", err)
	}
	runs(t, root, first, nil)
}

// again returns a function that returns a new root each time, as prepare makes it.
// Its files are second names of the same ones: nothing that is tested writes into
// a file that is there.
func again(t *testing.T, prepare func(root string)) func() string {
	t.Helper()
	first := t.TempDir()
	prepare(first)
	return func() string {
		root := t.TempDir()
		check(t, filepath.WalkDir(first, func(path string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(first, path)
			switch to := filepath.Join(root, rel); {
			case err != nil || rel == ".":
				return err
			case e.IsDir():
				return os.Mkdir(to, 0o755)
			case e.Type() == fs.ModeSymlink:
				target, _ := os.Readlink(path)
				return os.Symlink(target, to)
			default:
				return os.Link(path, to)
			}
		}))
		return root
	}
}

// cutEverywhere runs act on a fresh root, cut before and after each of its effects,
// and hands each root to then. At each moment the host has the programs of one of
// the releases.
func cutEverywhere(t *testing.T, least int, start func() string, act func(disk) error, then func(root string), whole ...*Store) {
	t.Helper()
	count := powercut.Cut{}
	d := on(start())
	d.effect = count.Effect
	check(t, act(d))
	if count.Effects < least {
		t.Fatalf("only %d effects: the test cuts nothing", count.Effects)
	}
	for at := 1; at <= count.Effects; at++ {
		for _, after := range []bool{false, true} {
			root, cut := start(), powercut.Cut{At: at, After: after}
			d := on(root)
			d.effect = cut.Effect
			if err := act(d); !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			if len(whole) > 0 {
				_ = onlyWhole(t, root, whole...)(func() error { return nil }) // it only looks
			}
			then(root)
			if t.Failed() {
				t.Fatalf("cut at %d of %d (after %v)", at, count.Effects, after)
			}
		}
	}
}

func TestASwitchCutAtAnyEffectIsFinishedOrTakenBack(t *testing.T) {
	first, second := testStore(t), secondStore(t)
	start := again(t, func(root string) {
		mustPlace(t, root, first, second)
		check(t, Switch(root, first.manifest.Digest))
	})
	act := func(d disk) error { return d.switchTo(second.manifest.Digest, "") }
	cutEverywhere(t, 5, start, act, func(root string) {
		check(t, Switch(root, second.manifest.Digest))
		runs(t, root, second, first)
		clean(t, root)
	}, first, second)
	cutEverywhere(t, 5, start, act, func(root string) {
		check(t, Switch(root, first.manifest.Digest))
		if got := programs(t, root); !maps.Equal(got, first.brings()) {
			t.Errorf("back again the host has %v", got)
		}
		if previous, err := Previous(root); err != nil || previous != "" && previous != second.manifest.Digest {
			t.Errorf("previous is %q, %v", previous, err)
		}
	}, first, second)
}

func TestACutSwitchNamesNoWrongWayBack(t *testing.T) {
	first, second, third := testStore(t), secondStore(t), thirdStore(t)
	start := again(t, func(root string) {
		mustPlace(t, root, first, second, third)
		check(t, Switch(root, first.manifest.Digest))
		check(t, Switch(root, second.manifest.Digest))
	})
	ways := map[string][]string{ // by the current release
		second.manifest.Digest: {first.manifest.Digest, ""},
		third.manifest.Digest:  {second.manifest.Digest},
	}
	cutEverywhere(t, 4, start, func(d disk) error { return d.switchTo(third.manifest.Digest, "") }, func(root string) {
		now, err := Current(root)
		check(t, err)
		if was, err := Previous(root); err != nil || !slices.Contains(ways[now], was) {
			t.Errorf("from %s the way back is %q, %v", now, was, err)
		}
		check(t, Switch(root, third.manifest.Digest))
		runs(t, root, third, second)
	}, second, third)
}

func TestTheFirstSwitchOfANewHostCanBeCut(t *testing.T) {
	first := testStore(t)
	start := again(t, func(root string) { mustPlace(t, root, first) })
	cutEverywhere(t, 5, start, func(d disk) error { return d.switchTo(first.manifest.Digest, "") }, func(root string) {
		check(t, Switch(root, first.manifest.Digest))
		runs(t, root, first, nil)
		clean(t, root)
	})
}

// idle returns the disk of a host without processes: a test may lack the right to
// see those of its machine.
func idle(t *testing.T, root string) disk {
	t.Helper()
	d := on(root)
	d.proc = t.TempDir()
	return d
}

func TestARemovedReleaseTakesItsLinksWithIt(t *testing.T) {
	first, second, third, root := testStore(t), secondStore(t), thirdStore(t), t.TempDir()
	mustPlace(t, root, first, second)
	check(t, Switch(root, first.manifest.Digest))
	check(t, Switch(root, second.manifest.Digest))
	for s, want := range map[*Store]string{first: "previous", second: "current"} {
		if err := Remove(root, s.manifest.Digest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	check(t, Remove(root, third.manifest.Digest)) // it is not there
	mustPlace(t, root, third)
	check(t, Switch(root, third.manifest.Digest))
	two := filepath.Join(root, "opt/two")
	if _, err := os.Lstat(two); err != nil {
		t.Errorf("the link of a release that is there is gone: %v", err)
	}
	write(t, filepath.Join(root, "usr/local/bin/foreign"), "not ours")
	before, err := Usage(root)
	check(t, err)
	check(t, idle(t, root).remove(first.manifest.Digest))
	runs(t, root, third, second)
	if _, err := os.Lstat(two); err == nil {
		t.Error("the link that only the removed release has is there")
	}
	for _, path := range []string{"usr/local/bin/one", "usr/sbin/fence_new", "usr/local/bin/foreign"} {
		if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	after, err := Usage(root)
	var size uint64
	for _, f := range mustRecord(t, root, second).Files {
		size += uint64(f.Size)
	}
	if err != nil || after >= before || after < size {
		t.Errorf("%d bytes, before %d: %v", after, before, err)
	}
	check(t, Switch(root, second.manifest.Digest))
	runs(t, root, second, third)
	clean(t, root)
}

func mustRecord(t *testing.T, root string, s *Store) record {
	t.Helper()
	r, err := on(root).read(s.name())
	check(t, err)
	return r
}

func TestARemovalCutAtAnyEffectIsFinishedByTheNext(t *testing.T) {
	first, second, third := testStore(t), secondStore(t), thirdStore(t)
	start := again(t, func(root string) {
		mustPlace(t, root, first, second, third)
		for _, s := range []*Store{first, second, third} {
			check(t, Switch(root, s.manifest.Digest))
		}
	})
	cutEverywhere(t, 4, start, func(d disk) error {
		d.proc = t.TempDir()
		return d.remove(first.manifest.Digest)
	}, func(root string) {
		check(t, idle(t, root).remove(first.manifest.Digest))
		runs(t, root, third, second)
		if _, err := os.Lstat(filepath.Join(root, "opt/two")); err == nil || host.Exists(on(root).at(first.name())) {
			t.Error("something of it is left")
		}
		clean(t, root)
	}, third)
}

func TestAReleaseWhoseProgramsRunStays(t *testing.T) {
	first, second, root := testStore(t), secondStore(t), t.TempDir()
	mustPlace(t, root, first, second)
	check(t, Switch(root, first.manifest.Digest))
	d := idle(t, root)
	running := filepath.Join(d.proc, "17", "exe")
	write(t, filepath.Join(d.proc, "17", "comm"), "shim\n")
	check(t, os.MkdirAll(filepath.Join(d.proc, "18"), 0o755)) // of the kernel
	check(t, os.Symlink(filepath.Join(d.at(second.name()), "usr/sbin/fence_new"), running))
	err := d.remove(second.manifest.Digest)
	if err == nil || !strings.Contains(err.Error(), "its programs still run: shim (process 17)") || !host.Exists(d.at(second.name())) {
		t.Errorf("error %v", err)
	}
	check(t, os.Remove(running))
	check(t, os.Symlink(filepath.Join(d.at(first.name()), "opt/two"), running))
	check(t, d.remove(second.manifest.Digest))
}

// earlier gives a host the programs of a release as earlier versions of Holdfast
// did: plain files, and a marker.
func earlier(t *testing.T, root string, s *Store) {
	t.Helper()
	img, _ := s.manifest.Image("host")
	wanted := map[string]File{}
	for _, f := range img.Files {
		wanted[f.Path] = f
	}
	check(t, s.extract(t.Context(), wanted, func(f File, r io.Reader) error {
		return place(filepath.Join(root, f.Path), r, f, 0o755)
	}))
	files, err := marked(root, img.Files)
	check(t, err)
	data, err := json.Marshal(marker{Release: s.manifest.Digest, Files: files})
	check(t, err)
	write(t, filepath.Join(root, markerFile), string(data))
}

func TestAHostOfAnEarlierHoldfastIsTakenOverWithAWayBack(t *testing.T) {
	first, second, root := testStore(t), secondStore(t), t.TempDir()
	earlier(t, root, first)
	mustPlace(t, root, second)
	d := on(root)
	d.effect = onlyWhole(t, root, first, second)
	check(t, d.switchTo(second.manifest.Digest, ""))
	runs(t, root, second, first)
	check(t, Verify(root, first.manifest.Digest))
	check(t, d.switchTo(first.manifest.Digest, ""))
	runs(t, root, first, second)
	clean(t, root)
	if host.Exists(filepath.Join(root, markerFile)) {
		t.Error("the old record is still there")
	}
}

func TestAHostOfAnEarlierHoldfastMayBeOfTheSameRelease(t *testing.T) {
	first, root := testStore(t), t.TempDir()
	earlier(t, root, first)
	mustPlace(t, root, first)
	d := on(root)
	d.effect = onlyWhole(t, root, first)
	check(t, d.switchTo(first.manifest.Digest, ""))
	runs(t, root, first, nil)
	clean(t, root)
}

func TestATakeOverCutAtAnyEffectIsFinishedByTheNext(t *testing.T) {
	first, second := testStore(t), secondStore(t)
	start := again(t, func(root string) {
		earlier(t, root, first)
		mustPlace(t, root, second)
	})
	cutEverywhere(t, 15, start, func(d disk) error { return d.switchTo(second.manifest.Digest, "") }, func(root string) {
		check(t, Switch(root, second.manifest.Digest))
		runs(t, root, second, first)
		check(t, Verify(root, first.manifest.Digest))
		clean(t, root)
		if host.Exists(filepath.Join(root, markerFile)) {
			t.Error("the old record is still there")
		}
	}, first, second)
}

func TestChangedProgramsOfAnEarlierHoldfastAreReplacedWithoutAWayBack(t *testing.T) {
	first, second := testStore(t), secondStore(t)
	start := again(t, func(root string) {
		earlier(t, root, first)
		write(t, filepath.Join(root, "usr/local/bin/one"), "changed by hand")
		mustPlace(t, root, second)
	})
	cutEverywhere(t, 8, start, func(d disk) error { return d.switchTo(second.manifest.Digest, "") }, func(root string) {
		check(t, Switch(root, second.manifest.Digest))
		runs(t, root, second, nil)
		clean(t, root)
		if host.Exists(on(root).at(first.name())) || host.Exists(filepath.Join(root, markerFile)) {
			t.Error("what is no release of its own is kept")
		}
	})
}

// A record is only a file: it must not make us remove or replace files of others.
func TestARecordLeadsNowhereOutsideOfTheHost(t *testing.T) {
	s, dir := testStore(t), t.TempDir()
	root := filepath.Join(dir, "root")
	write(t, filepath.Join(dir, "victim"), "precious")
	bad := []markedFile{{File: File{Path: "/../victim"}}}
	m, _ := json.Marshal(marker{Release: s.manifest.Digest, Files: bad})
	write(t, filepath.Join(root, markerFile), string(m))
	mustPlace(t, root, s)
	check(t, Switch(root, s.manifest.Digest))
	runs(t, root, s, nil)
	other := strings.Repeat("a", 64)
	for name, r := range map[string]record{
		other:                   {Format: recordFormat, Release: "sha256:" + other, Files: bad},
		strings.Repeat("b", 64): {Format: recordFormat, Release: "sha256:" + other},
		strings.Repeat("c", 64): {Format: recordFormat + 1, Release: "sha256:" + strings.Repeat("c", 64)},
	} {
		data, _ := json.Marshal(r)
		write(t, on(root).at(name, manifestFile), string(data))
		if err := Switch(root, "sha256:"+name); err == nil {
			t.Errorf("a switch to %s", data)
		}
	}
	runs(t, root, s, nil)
	if data, err := os.ReadFile(filepath.Join(dir, "victim")); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}
