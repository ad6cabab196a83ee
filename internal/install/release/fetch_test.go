package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// shelf returns the shelf of an empty host.
func shelf(t *testing.T) Shelf {
	t.Helper()
	s := NewShelf(t.TempDir(), 0)
	s.chunk = 512 << 10
	return s
}

// copyOf returns a folder with a release, whose blobs no cache shares.
func copyOf(t *testing.T, s *Store) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// largest returns the greatest blob of a release.
func largest(t *testing.T, s *Store) blobRef {
	t.Helper()
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	return slices.MaxFunc(refs, func(a, b blobRef) int { return int(a.size - b.size) })
}

// asked counts what a source was asked for, and may refuse it.
type asked struct {
	Source
	index   int
	blobs   map[string]int
	offsets map[string]int64
	refuse  func(Blob) error
}

func (a *asked) Index(ctx context.Context, digest string) ([]byte, error) {
	a.index++
	return a.Source.Index(ctx, digest)
}

func (a *asked) Blob(ctx context.Context, b Blob, offset int64) (io.ReadCloser, error) {
	if a.blobs == nil {
		a.blobs, a.offsets = map[string]int{}, map[string]int64{}
	}
	a.blobs[b.Digest]++
	a.offsets[b.Digest] = offset
	if a.refuse != nil {
		if err := a.refuse(b); err != nil {
			return nil, err
		}
	}
	return a.Source.Blob(ctx, b, offset)
}

func TestAReleaseIsFetchedFromAFolderAStickARegistryOrAPeer(t *testing.T) {
	s := testStore(t)
	digest := s.Manifest().Digest
	stick := t.TempDir()
	if err := os.CopyFS(filepath.Join(stick, strings.TrimPrefix(digest, "sha256:")), os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	have := shelf(t)
	if _, err := have.Fetch(t.Context(), digest, []Source{Folder(s.dir)}, nil); err != nil {
		t.Fatal(err)
	}
	peer := httptest.NewServer(have.Handler())
	defer peer.Close()
	at := func(server *httptest.Server) Registry {
		return Registry{Repository: strings.TrimPrefix(server.URL, "http://") + "/" + Repository}
	}
	for name, from := range map[string]Source{"folder": Folder(s.dir), "stick": Folder(stick), "registry": at(serveTest(t, s)), "peer": at(peer)} {
		to := shelf(t)
		var last [2]int64
		got, err := to.Fetch(t.Context(), digest, []Source{from}, func(have, all int64) { last = [2]int64{have, all} })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := errors.Join(got.Compare(t.Context()), got.Verify()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !maps.Equal(snapshot(t, got.Dir()), snapshot(t, s.dir)) {
			t.Errorf("%s: the folder differs", name)
		}
		if last[0] != last[1] || last[1] == 0 {
			t.Errorf("%s: it ended at %d of %d bytes", name, last[0], last[1])
		}
		if lies, err := to.Digests(); err != nil || !slices.Equal(lies, []string{digest}) {
			t.Errorf("%s: %q lie there, %v", name, lies, err)
		}
	}
}

func TestAFetchThatIsCutAtAnyWriteGoesOnAndShowsNoHalfRelease(t *testing.T) {
	s := thirdStore(t)
	digest := s.Manifest().Digest
	for at := 1; ; at++ {
		var cut powercut.Cut
		for _, after := range []bool{false, true} {
			to := shelf(t)
			cut = powercut.Cut{At: at, After: after}
			to.effect = cut.Effect
			if _, err := to.Fetch(t.Context(), digest, []Source{Folder(s.dir)}, nil); cut.Dead && !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			if got, err := to.Open(digest); err == nil {
				if err := got.Compare(t.Context()); err != nil {
					t.Errorf("cut at %d: a release shows itself that is not whole: %v", at, err)
				}
			}
			to.effect = NewShelf("", 0).effect
			got, err := to.Fetch(t.Context(), digest, []Source{Folder(s.dir)}, nil)
			if err == nil {
				err = got.Compare(t.Context())
			}
			if err != nil {
				t.Fatalf("after a cut at %d: %v", at, err)
			}
			if left, err := to.Begun(); err != nil || len(left) > 0 {
				t.Errorf("after a cut at %d: %q is left, %v", at, left, err)
			}
		}
		if !cut.Dead {
			if at < 20 {
				t.Errorf("there were only %d effects", at)
			}
			return
		}
	}
}

func TestWhatLiesThereOfABlobIsNotFetchedAgainUnlessItIsWrong(t *testing.T) {
	s := testStore(t)
	big := largest(t, s)
	for name, c := range map[string]struct {
		lies   []byte
		offset int64
		times  int
	}{
		"its beginning":    {nil, 1000, 1},
		"other bytes":      {bytes.Repeat([]byte{7}, 1000), 0, 2},
		"more than it has": {make([]byte, big.size+5), 0, 1},
	} {
		to := shelf(t)
		part := filepath.Join(to.at(strings.TrimPrefix(s.Manifest().Digest, "sha256:") + unfinished))
		path, _ := blobPath(part, big.digest)
		if c.lies == nil {
			data, err := s.readBlob(big)
			if err != nil {
				t.Fatal(err)
			}
			c.lies = data[:1000]
		}
		write(t, path+half, string(c.lies))
		from := &asked{Source: Registry{Repository: strings.TrimPrefix(serveTest(t, s).URL, "http://") + "/" + Repository}}
		if _, err := to.Fetch(t.Context(), s.Manifest().Digest, []Source{from}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if from.blobs[big.digest] != c.times || from.offsets[big.digest] != c.offset {
			t.Errorf("%s: asked %d times, the last time from %d", name, from.blobs[big.digest], from.offsets[big.digest])
		}
	}
}

func TestAnotherSourceGivesTheBlobThatOneLacksOrHasDamaged(t *testing.T) {
	s := testStore(t)
	big := largest(t, s)
	bad, poor := copyOf(t, s), copyOf(t, s)
	path, _ := blobPath(bad, big.digest)
	damage(t, path)
	path, _ = blobPath(poor, big.digest)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	good := &asked{Source: Folder(s.dir)}
	if _, err := shelf(t).Fetch(t.Context(), s.Manifest().Digest, []Source{Folder(t.TempDir()), Folder(bad), Folder(poor), good}, nil); err != nil {
		t.Fatal(err)
	}
	if len(good.blobs) != 1 || good.blobs[big.digest] != 1 || good.index != 0 {
		t.Errorf("the last source was asked for %v", good.blobs)
	}
}

func TestTheErrorOfAFetchNamesSourceAndBlob(t *testing.T) {
	s := testStore(t)
	big := largest(t, s)
	bad := copyOf(t, s)
	path, _ := blobPath(bad, big.digest)
	damage(t, path)
	refusing := &asked{Source: Folder(s.dir), refuse: func(b Blob) error {
		if b.Digest == big.digest {
			return errors.New("no such luck")
		}
		return nil
	}}
	foreign := filepath.Join(t.TempDir(), "x")
	write(t, filepath.Join(foreign, indexFile), `{"annotations":{}}`)
	digest := s.Manifest().Digest
	for name, c := range map[string]struct {
		digest string
		from   []Source
		want   []string
	}{
		"a blob that nobody has right": {digest, []Source{Folder(bad), refusing}, []string{big.digest, "the folder " + bad + ": its content is not", "no such luck"}},
		"no source":                    {digest, nil, []string{digest, "nobody has named a place"}},
		"no release there":             {digest, []Source{Folder(foreign)}, []string{"the folder " + foreign, "it has no release"}},
		"no such registry":             {digest, []Source{Registry{Repository: "x"}}, []string{"the registry x", "REGISTRY/REPOSITORY"}},
		"not a digest":                 {"latest", []Source{Folder(s.dir)}, []string{`"latest" is not the digest`}},
	} {
		to := shelf(t)
		_, err := to.Fetch(t.Context(), c.digest, c.from, nil)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
		if lies, err := to.Digests(); err != nil || len(lies) > 0 {
			t.Errorf("%s: %q lie there, %v", name, lies, err)
		}
	}
}

func TestAFetchLooksForRoomFirstAndLeavesWhatKubeletNeeds(t *testing.T) {
	s := testStore(t)
	refs, err := s.blobsOf(s.index.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	manifests, need := map[string]bool{}, uint64(folderRoom)
	for _, d := range s.index.Manifests {
		manifests[d.Digest.String()] = true
	}
	for _, r := range refs {
		if !manifests[r.digest] {
			need += uint64(r.size) + blockSize
		}
	}
	for _, missing := range []uint64{1, 0} {
		to := shelf(t)
		to.Line = 2 << 30
		to.free = func(string) (uint64, error) { return need + to.Line - missing, nil }
		from := &asked{Source: Folder(s.dir)}
		_, err := to.Fetch(t.Context(), s.Manifest().Digest, []Source{from}, nil)
		if missing == 0 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "beside the 2048 MiB that must stay free") || len(from.blobs) != len(manifests) {
			t.Errorf("%v, after %d blobs", err, len(from.blobs))
		}
	}
}

func TestOneReleaseIsFetchedAtATime(t *testing.T) {
	s := testStore(t)
	to := shelf(t)
	var second error
	from := &asked{Source: Folder(s.dir), refuse: func(Blob) error {
		_, second = to.Fetch(t.Context(), s.Manifest().Digest, []Source{Folder(s.dir)}, nil)
		return nil
	}}
	if _, err := to.Fetch(t.Context(), s.Manifest().Digest, []Source{from}, nil); err != nil {
		t.Error(err)
	}
	if second == nil || !strings.Contains(second.Error(), "is fetched to this host already") {
		t.Errorf("the second fetch: %v", second)
	}
}

func TestADamagedReleaseIsFetchedAgainWithoutItsSoundBlobs(t *testing.T) {
	s := testStore(t)
	digest, big := s.Manifest().Digest, largest(t, s)
	to := shelf(t)
	got, err := to.Fetch(t.Context(), digest, []Source{Folder(s.dir)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := blobPath(got.dir, big.digest)
	damage(t, path)
	if err := got.Compare(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("the damage was not noticed: %v", err)
	}
	if err := to.Damaged(digest); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Open(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it still counts as whole: %v", err)
	}
	from := &asked{Source: Folder(s.dir)}
	if got, err = to.Fetch(t.Context(), digest, []Source{from}, nil); err != nil {
		t.Fatal(err)
	}
	if err := got.Compare(t.Context()); err != nil || len(from.blobs) != 1 {
		t.Errorf("%v, %d blobs were fetched", err, len(from.blobs))
	}
}

func TestARemovedReleaseIsGoneAlsoAfterACut(t *testing.T) {
	s := thirdStore(t)
	digest := s.Manifest().Digest
	for at := range 6 {
		to := shelf(t)
		if _, err := to.Fetch(t.Context(), digest, []Source{Folder(s.dir)}, nil); err != nil {
			t.Fatal(err)
		}
		cut := powercut.Cut{At: at}
		to.effect = cut.Effect
		if err := to.Remove(digest); err != nil && !cut.Dead {
			t.Fatal(err)
		}
		if got, err := to.Open(digest); err == nil {
			if err := got.Compare(t.Context()); err != nil {
				t.Errorf("cut at %d: a half removed release counts as whole: %v", at, err)
			}
		}
		to.effect = NewShelf("", 0).effect
		for range 2 { // one that is not there is no error
			if err := to.Remove(digest); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(to.at()); err != nil || len(left) > 0 {
			t.Errorf("cut at %d: %v is left, %v", at, left, err)
		}
	}
}

func TestARegistryThatFallsSilentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(silence, func() { stop(fmt.Errorf("it sent nothing for %s", silence)) })
		read, _ := io.Pipe()
		context.AfterFunc(ctx, func() { _ = read.CloseWithError(ctx.Err()) })
		body := &watched{ReadCloser: read, timer: timer, stop: stop, cause: func() error { return context.Cause(ctx) }}
		if _, err := body.Read(make([]byte, 1)); err == nil || err.Error() != "it sent nothing for 1m0s" {
			t.Errorf("%v", err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPeerServesNothingButItsReleases(t *testing.T) {
	s := thirdStore(t)
	have := shelf(t)
	if _, err := have.Fetch(t.Context(), s.Manifest().Digest, []Source{Folder(s.dir)}, nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/v2/": http.StatusOK, "/v2/" + Repository + "/manifests/" + s.Manifest().Digest: http.StatusOK,
		"/v2/" + Repository + "/manifests/latest": http.StatusNotFound, "/v2/" + Repository + "/blobs/..%2f..%2findex.json": http.StatusNotFound,
		"/": http.StatusNotFound, "/v2/" + Repository + "/blobs/" + digestBytes(nil): http.StatusNotFound,
	} {
		answer := httptest.NewRecorder()
		have.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", path, answer.Code, want)
		}
	}
}
