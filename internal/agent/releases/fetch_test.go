package releases

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func digests(t *testing.T) (old, next, other string) {
	t.Helper()
	return opened(t, oldRelease).Manifest().Digest, opened(t, newRelease).Manifest().Digest, opened(t, otherRelease).Manifest().Digest
}

func TestARequestHasReleasesLieOnAHostWholeAndChangesNothingThatRuns(t *testing.T) {
	old, next, _ := digests(t)
	w := newWorld(t)
	if got := w.whole(); !slices.Equal(got, []string{old}) {
		t.Fatalf("before it %q lie there whole", got)
	}
	if err := w.Do(t.Context(), wants(t, old, next)); err != nil {
		t.Fatal(err)
	}
	if got := w.whole(); !slices.Equal(got, sorted(old, next)) {
		t.Errorf("%q lie there whole", got)
	}
	if now, err := release.Current(w.Root); err != nil || now != old {
		t.Errorf("the current release is %s, %v", now, err)
	}
	if layouts, err := w.Shelf.Digests(); err != nil || !slices.Equal(layouts, []string{next}) {
		t.Errorf("on the shelf lie %q, %v: the installed one was fetched again", layouts, err)
	}
	if len(w.podman) != 2 || len(w.images) != 5 {
		t.Errorf("podman has %v, containerd %v", w.podman, w.images)
	}
	last := w.said[len(w.said)-1]
	if last != (State{Request: wants(t, old, next)}) {
		t.Errorf("it said %+v at last", last)
	}
	about, err := w.About(next)
	if err != nil || about.Digest != next || !about.Verified {
		t.Errorf("%+v, %v", about, err)
	}
}

func TestAWorkerGetsNoImageOfControlPlanes(t *testing.T) {
	old, next, _ := digests(t)
	w := newWorld(t)
	w.ControlPlane, w.Etcd = false, nil
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	etcd, _ := opened(t, newRelease).Manifest().Image("etcd")
	if _, has := w.images[etcd.Ref]; has || !slices.Equal(w.whole(), sorted(old, next)) {
		t.Errorf("%v", w.images)
	}
}

func TestARequestThatIsCutAnywhereGoesOn(t *testing.T) {
	old, next, _ := digests(t)
	for at := 1; ; at++ {
		dead := false
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			w.cut = powercut.Cut{At: at, After: after}
			err := w.Do(t.Context(), wants(t, old, next))
			if dead = w.cut.Dead; dead && !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			whole := w.whole() // it may be whole before the run says so
			w.cut = powercut.Cut{}
			if err := w.Do(t.Context(), wants(t, old, next)); err != nil {
				t.Fatalf("after a cut at %d: %v", at, err)
			}
			if got := w.whole(); !slices.Equal(got, sorted(old, next)) || !slices.Contains(whole, old) {
				t.Errorf("after a cut at %d %q lie there whole, and before %q", at, got, whole)
			}
		}
		if !dead {
			if at < 8 {
				t.Errorf("there were only %d effects", at)
			}
			return
		}
	}
}

func TestTwoReleasesWithOneImageNameAndOtherContentsAreRefused(t *testing.T) {
	_, next, other := digests(t)
	w := newWorld(t)
	w.from = []release.Source{release.Folder(newRelease), release.Folder(otherRelease)}
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	before := w.images
	err := w.Do(t.Context(), wants(t, next, other))
	proxy, _ := opened(t, otherRelease).Manifest().Image("kube-proxy")
	if err == nil || !contains(err.Error(), other, "image "+proxy.Ref+" is on this host with other contents", proxy.Digest, "needs another version") {
		t.Errorf("%v", err)
	}
	if w.images[proxy.Ref] != before[proxy.Ref] || slices.Contains(w.whole(), other) || !slices.Contains(w.whole(), next) {
		t.Errorf("containerd has %v", w.images)
	}
	if last := w.said[len(w.said)-1]; last.Failed != err.Error() || last.Doing != "" {
		t.Errorf("it said %+v", last)
	}
}

func TestWhatNobodyNeedsIsTakenAwayAndTheWayBackIsNot(t *testing.T) {
	old, next, other := digests(t)
	w := newWorld(t)
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	if err := release.Switch(w.Root, next); err != nil {
		t.Fatal(err)
	}
	third := payload.Registry + "/kube-proxy:v0"
	w.images[third] = Held{Digest: "sha256:0", Pinned: true} // of somebody else
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	if got := w.whole(); !slices.Equal(got, sorted(old, next)) {
		t.Errorf("the current and the previous release are %q", got)
	}
	if !w.images[third].Pinned {
		t.Error("an image of no release lost its pin")
	}
	if err := release.Switch(w.Root, old); err != nil { // next is the previous one now
		t.Fatal(err)
	}
	// A release that was wanted for a while, and of which a fetch has begun.
	w.from = []release.Source{release.Folder(otherRelease)}
	if err := w.Do(t.Context(), wants(t, other)); err == nil {
		t.Fatal("another content of one image was taken")
	}
	w.runs[other] = true
	if err := w.Do(t.Context(), wants(t, old)); err != nil {
		t.Fatal(err)
	}
	if last := w.said[len(w.said)-1]; last.Kept != "its programs still run" || last.Failed != "" {
		t.Errorf("%+v", last)
	}
	w.runs[other] = false
	if err := w.Do(t.Context(), wants(t, old)); err != nil {
		t.Fatal(err)
	}
	left, err := w.all()
	if err != nil || !slices.Equal(left, sorted(old, next)) {
		t.Errorf("%q is left, %v", left, err)
	}
}

// TestWhatNobodyNeedsMakesRoomForWhatComes: a disk that has room for one release more takes each
// upgrade. What cannot be taken away stops none.
func TestWhatNobodyNeedsMakesRoomForWhatComes(t *testing.T) {
	old, next, _ := digests(t)
	third := opened(t, thirdRelease)
	for name, c := range map[string]struct {
		runs  bool
		kept  error
		whole []string
		want  string
	}{
		"it goes":                       {whole: sorted(old, third.Manifest().Digest)},
		"its programs run":              {runs: true, whole: sorted(old, next), want: "make room on that file system"},
		"what stays is known to nobody": {kept: errors.New("no link"), whole: sorted(old, next), want: "no link"},
	} {
		w := newWorld(t)
		if err := w.Do(t.Context(), wants(t, next)); err != nil {
			t.Fatal(err)
		}
		w.Free = func() (uint64, error) {
			if layouts, err := w.Shelf.Digests(); slices.Contains(layouts, next) {
				return 0, err
			}
			return 1 << 40, nil
		}
		kept := w.Kept
		w.runs[next], w.from = c.runs, []release.Source{release.Folder(thirdRelease)}
		w.Kept = func() ([]string, error) { list, err := kept(); return list, errors.Join(err, c.kept) }
		err := w.Do(t.Context(), wants(t, third.Manifest().Digest))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.whole(); !slices.Equal(got, c.whole) {
			t.Errorf("%s: %q lie there whole, want %q", name, got, c.whole)
		}
		for _, i := range opened(t, newRelease).Manifest().Images {
			if have, is := w.images[i.Ref]; is && have.Pinned != (i.Name == "pause" || c.want != "") {
				t.Errorf("%s: %s is pinned: %v", name, i.Ref, have.Pinned)
			}
		}
		// With room all the same it comes, whatever is left.
		w.Free = func() (uint64, error) { return 1 << 40, nil }
		if err := w.Do(t.Context(), wants(t, third.Manifest().Digest)); (err == nil) != (c.kept == nil) || !slices.Contains(w.whole(), third.Manifest().Digest) {
			t.Errorf("%s: %v, %q lie there whole", name, err, w.whole())
		}
	}
}

func TestAReleaseGoesWithTheImagesThatItAloneHas(t *testing.T) {
	old, next, _ := digests(t)
	for at := range 6 {
		w := newWorld(t)
		if err := w.Do(t.Context(), wants(t, next)); err != nil {
			t.Fatal(err)
		}
		if !w.podman[etcdOf(t, newRelease)] {
			t.Fatalf("podman has %v", w.podman)
		}
		w.cut = powercut.Cut{At: at}
		if err := w.Do(t.Context(), wants(t, old)); err != nil && !w.cut.Dead {
			t.Fatal(err)
		}
		w.cut = powercut.Cut{}
		if err := w.Do(t.Context(), wants(t, old)); err != nil {
			t.Fatal(err)
		}
		for _, i := range opened(t, newRelease).Manifest().Images {
			shared := i.Name == "pause"
			if have, is := w.images[i.Ref]; is && have.Pinned != shared {
				t.Errorf("cut at %d: %s is pinned: %v", at, i.Ref, have.Pinned)
			}
		}
		if left, err := w.all(); err != nil || !slices.Equal(left, []string{old}) || w.podman[etcdOf(t, newRelease)] {
			t.Errorf("cut at %d: %q is left, and podman has %v, %v", at, left, w.podman, err)
		}
	}
}

// etcdOf returns the name of the image of etcd in a release.
func etcdOf(t *testing.T, dir string) string {
	t.Helper()
	i, is := opened(t, dir).Manifest().Image("etcd")
	if !is {
		t.Fatalf("%s has no etcd", dir)
	}
	return i.Ref
}

// TestAReleaseStaysWhileItsEtcdRuns, with its layout, without which nobody would know the image later.
func TestAReleaseStaysWhileItsEtcdRuns(t *testing.T) {
	old, next, _ := digests(t)
	w := newWorld(t)
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	w.etcd = etcdOf(t, newRelease)
	if err := w.Do(t.Context(), wants(t, old)); err != nil {
		t.Fatal(err)
	}
	last := w.said[len(w.said)-1]
	if left, err := w.all(); err != nil || !slices.Equal(left, sorted(old, next)) || !strings.Contains(last.Kept, "is in use") || last.Failed != "" {
		t.Errorf("%q is left, %+v, %v", left, last, err)
	}
	w.etcd = ""
	if err := w.Do(t.Context(), wants(t, old)); err != nil {
		t.Fatal(err)
	}
	if left, err := w.all(); err != nil || !slices.Equal(left, []string{old}) || w.podman[etcdOf(t, newRelease)] {
		t.Errorf("%q is left, podman has %v, %v", left, w.podman, err)
	}
}

// TestTheImagesOfAnInstallationGoWhenNobodyNeedsThem: its layout stays where it is, and its programs
// may be gone already. The image of which sandboxes are made is needed for good.
func TestTheImagesOfAnInstallationGoWhenNobodyNeedsThem(t *testing.T) {
	old, next, _ := digests(t)
	third := opened(t, thirdRelease).Manifest().Digest
	etcd, _ := opened(t, oldRelease).Manifest().Image("etcd")
	for at := range 5 {
		for _, gone := range []bool{false, true} {
			w := newWorld(t)
			config := filepath.Join(w.Root, renderhost.ContainerdPath)
			if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte("version = 3\nsandbox = '"+etcd.Ref+"'\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			w.from = append(w.from, release.Folder(thirdRelease))
			for _, digest := range []string{next, third} {
				if err := errors.Join(w.Do(t.Context(), wants(t, digest)), release.Switch(w.Root, digest)); err != nil {
					t.Fatal(err)
				}
			}
			if have := w.images[etcd.Ref]; !have.Pinned {
				t.Fatal("an image of the previous release is not pinned")
			}
			if gone {
				if err := w.remove(old); err != nil {
					t.Fatal(err)
				}
			} else if w.runs[old] = true; w.Do(t.Context(), wants(t, third)) != nil || !w.images[etcd.Ref].Pinned {
				t.Fatal("an image of programs that run lost its pin")
			}
			w.runs[old] = false
			w.cut = powercut.Cut{At: at}
			if err := w.Do(t.Context(), wants(t, third)); err != nil && !w.cut.Dead {
				t.Fatal(err)
			}
			w.cut = powercut.Cut{}
			if err := w.Do(t.Context(), wants(t, third)); err != nil {
				t.Fatal(err)
			}
			for _, i := range opened(t, oldRelease).Manifest().Images {
				stays := i.Name == "pause" || i.Name == "etcd"
				if have, is := w.images[i.Ref]; is && have.Pinned != stays {
					t.Errorf("cut at %d, the programs are gone: %v: %s is pinned: %v", at, gone, i.Ref, have.Pinned)
				}
			}
			if got := w.whole(); !slices.Equal(got, sorted(next, third)) {
				t.Errorf("cut at %d: %q lie there whole", at, got)
			}
			if _, err := release.Open(w.Installed[0]); err != nil {
				t.Errorf("cut at %d: the layout of the installation: %v", at, err)
			}
		}
	}
}

func TestNobodyWhoWantsNothingHasAnythingTakenAway(t *testing.T) {
	_, next, _ := digests(t)
	w := newWorld(t)
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"", wants(t)} {
		w.cut = powercut.Cut{}
		if err := w.Do(t.Context(), request); err != nil || w.cut.Effects != 0 {
			t.Errorf("%q: %d effects, %v", request, w.cut.Effects, err)
		}
	}
	for request, want := range map[string]string{`{"format":9}`: "a later release", "x": "not readable"} {
		if err := w.Do(t.Context(), request); err == nil || !strings.Contains(err.Error(), want) || w.cut.Effects != 0 {
			t.Errorf("%q: %d effects, %v", request, w.cut.Effects, err)
		}
	}
}

func TestAReleaseThatCannotComeIsNamedAndTheOthersComeAllTheSame(t *testing.T) {
	old, next, other := digests(t)
	w := newWorld(t)
	err := w.Do(t.Context(), wants(t, other, next))
	if err == nil || !contains(err.Error(), "release "+other, "the folder "+newRelease, "it has no release") {
		t.Errorf("%v", err)
	}
	if got := w.whole(); !slices.Equal(got, sorted(old, next)) {
		t.Errorf("%q lie there whole", got)
	}
}

func TestRoomForImagesIsLookedForFirst(t *testing.T) {
	_, next, _ := digests(t)
	w := newWorld(t)
	w.Shelf.Line, w.free = state.KeptFree, state.KeptFree
	err := w.Do(t.Context(), wants(t, next))
	if err == nil || !strings.Contains(err.Error(), "beside the 2048 MiB that must stay free") || len(w.images) != 3 {
		t.Errorf("%v, containerd has %v", err, w.images)
	}
}

func TestADamagedReleaseIsMendedFromItsSources(t *testing.T) {
	old, next, _ := digests(t)
	w := newWorld(t)
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(w.Root, payload.LayoutsDir, strings.TrimPrefix(next, "sha256:")), w.Installed[0]} {
		blobs, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
		if err != nil || len(blobs) == 0 {
			t.Fatal(err)
		}
		for _, path := range blobs {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 1<<16 { // the layer with the program
				data[len(data)/2] ^= 1
				if err := errors.Join(os.Remove(path), os.WriteFile(path, data, 0o444)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.from = []release.Source{only(t)}
	if err := w.Do(t.Context(), wants(t, old, next)); err == nil || !contains(err.Error(), "release "+old, "release "+next) {
		t.Errorf("damaged releases were taken: %v", err)
	}
	w.from = []release.Source{release.Folder(oldRelease), release.Folder(newRelease)}
	if err := w.Do(t.Context(), wants(t, old, next)); err != nil {
		t.Fatal(err)
	}
	sound := func(what string) {
		t.Helper()
		for _, digest := range []string{old, next} {
			if s, err := w.Shelf.Open(digest); err != nil || s.Compare(t.Context()) != nil {
				t.Errorf("%s: %s: %v", what, digest, err)
			}
		}
	}
	sound("blobs")
	index := filepath.Join(w.Root, payload.LayoutsDir, strings.TrimPrefix(next, "sha256:"), "index.json")
	whole, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(oldRelease, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{"half an index": whole[:len(whole)/2], "an empty one": {}, "that of another release": other, "none": nil} {
		err := os.Remove(index)
		if text != nil {
			err = errors.Join(err, os.WriteFile(index, text, 0o444))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Do(t.Context(), wants(t, old, next)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		sound(what)
	}
}

func TestTheTableOfContainerdsImagesIsRead(t *testing.T) {
	const table = `REF                                              TYPE                                       DIGEST                                                                  SIZE      PLATFORMS   LABELS
release.holdfast.internal/etcd:3.6.14-0          application/vnd.oci.image.manifest.v1+json sha256:aa11 61.6 MiB  linux/amd64 io.cri-containerd.image=managed,io.cri-containerd.pinned=pinned
registry.example/app@sha256:bb22                 application/vnd.oci.image.index.v1+json    sha256:bb22 1.0 KiB   linux/amd64 -
release.holdfast.internal/pause:3.10.2           application/vnd.oci.image.manifest.v1+json sha256:cc33 700.0 KiB linux/amd64 io.cri-containerd.pinned=
`
	want := map[string]Held{
		"release.holdfast.internal/etcd:3.6.14-0": {"sha256:aa11", true}, "registry.example/app@sha256:bb22": {"sha256:bb22", false},
		"release.holdfast.internal/pause:3.10.2": {"sha256:cc33", false},
	}
	got := held(table)
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %+v, want %+v", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}
