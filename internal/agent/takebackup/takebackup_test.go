package takebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func TestABackupUnderWritesIsRestoredComparedSentEncryptedAndOpenedByItsRecipient(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 200)
	w.write(t, "/etc/holdfast/fencing/cp-2.json", "account")
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan error)
	c := w.writer(t)
	go func() { // writes go on
		var err error
		for i := 0; err == nil; i++ {
			_, err = c.Put(ctx, fmt.Sprintf("/registry/y/%d", i), "v")
		}
		wrote <- err
	}()
	req := w.request(0)
	s, err := w.Do(t.Context(), req)
	stop()
	t.Logf("the writer ended with its context: %v", <-wrote)
	must(t, err)
	if !s.Good || !s.Ended || len(s.NotSent) > 0 || s.Phase != backup.PhaseDone {
		t.Errorf("%+v", s)
	}
	e, err := w.Catalogue.Entry(req.ID)
	must(t, err)
	if !e.Good || !e.Has("nas") || e.Database.Revision < 200 || e.Database.Revision < e.Database.Read || e.Database.Keys < 200 || e.Database.Hash == 0 || e.Release.Etcd == "" || len(e.Authorities) != 4 {
		t.Errorf("%+v", e)
	}
	var checks []string
	for _, c := range e.Checks {
		checks = append(checks, c.Name)
	}
	if want := []string{"sum", "pages", "revision", "restore", "hash", "authorities", "archive"}; !slices.Equal(checks, want) {
		t.Errorf("checks %v, want %v", checks, want)
	}
	sent := filepath.Join(w.nas, backup.SentName(req.Site, req.Host, req.ID))
	if _, err := archive.OpenFile(t.Context(), sent, "", nil); !errors.Is(err, archive.ErrNoIdentity) {
		t.Errorf("without a key: %v", err)
	}
	dir := t.TempDir()
	m, err := archive.OpenFile(t.Context(), sent, w.identity.String(), func(m archive.Member, r io.Reader) error {
		text, err := io.ReadAll(r)
		return errors.Join(err, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(m.Name, "/", "_")), text, 0o600))
	})
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(dir, "host_etc_holdfast_fencing_cp-2.json")); err != nil || string(text) != "account" || len(m.Members) != 11 {
		t.Errorf("%s %v, %d members", text, err, len(m.Members))
	}
	if _, err := host.Run(t.Context(), host.Command(w.program, "snapshot", "restore", filepath.Join(dir, "snapshot.db"), "--data-dir", filepath.Join(dir, "data"))); err != nil {
		t.Error(err)
	}
	if got := names(t, w.Catalogue.Dir); !slices.Equal(got, []string{".lock", req.ID + "/" + req.ID + ".tar", req.ID + "/entry.json"}) {
		t.Errorf("left: %v", got)
	}
}

// flip flips one bit of the byte at a place.
type flip struct {
	to io.Writer
	at int
}

func (f *flip) Write(p []byte) (int, error) {
	if f.at >= 0 && f.at < len(p) {
		p = slices.Clone(p)
		p[f.at] ^= 1
	}
	f.at -= len(p)
	return f.to.Write(p)
}

// first passes on only so many bytes, and says that all were written.
type first struct {
	to io.Writer
	n  int
}

func (f *first) Write(p []byte) (int, error) {
	some := p[:min(f.n, len(p))]
	f.n -= len(some)
	_, err := f.to.Write(some)
	return len(p), err
}

// L43, and the kinds of damage that reports of other projects name: a damaged file in place of
// the snapshot never makes a good backup, and no program but etcdutl ends because of it.
func TestADamagedSnapshotIsNeverABackup(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 100)
	for name, damage := range map[string]func(io.Writer) io.Writer{
		"empty":                  func(to io.Writer) io.Writer { return &first{to, 0} },
		"cut in the first page":  func(to io.Writer) io.Writer { return &first{to, 100} },
		"cut at a page":          func(to io.Writer) io.Writer { return &first{to, 4096} },
		"cut in the middle":      func(to io.Writer) io.Writer { return &first{to, 10_000} },
		"its meta page flipped":  func(to io.Writer) io.Writer { return &flip{to, 20} },
		"a bit flipped":          func(to io.Writer) io.Writer { return &flip{to, 12_345} },
		"a later bit flipped":    func(to io.Writer) io.Writer { return &flip{to, 17_000} },
		"without etcd's own sum": func(to io.Writer) io.Writer { return &first{to, w.size(t)} },
	} {
		r := w.run(damaging{Etcd: w.etcd, damage: damage}, filepath.Join(t.TempDir(), "backups"))
		s, err := r.Do(t.Context(), w.request(0))
		entries, broken, listErr := r.Catalogue.List()
		if err == nil || s.Good || s.Failed == "" || len(entries)+len(broken) > 0 || listErr != nil {
			t.Errorf("%s: %+v, %v; there are %v %v %v", name, s, err, entries, broken, listErr)
		}
		if got := names(t, r.Catalogue.Dir); !slices.Equal(got, []string{".lock"}) {
			t.Errorf("%s leaves %v", name, got)
		}
	}
	if got := names(t, w.nas); len(got) != 1 {
		t.Errorf("something was sent: %v", got)
	}
}

// size is that of the database alone.
func (w *world) size(t *testing.T) int {
	t.Helper()
	n, err := w.etcd.Snapshot(t.Context(), io.Discard)
	must(t, err)
	return int(n) - 32
}

// answering is an etcd that says something else of itself.
type answering struct {
	snapshot.Etcd
	status func(*etcd.MemberStatus)
	latest int64
	hash   uint32
}

func (a answering) Status(ctx context.Context) (etcd.MemberStatus, error) {
	s, err := a.Etcd.Status(ctx)
	if a.status != nil {
		a.status(&s)
	}
	return s, err
}

func (a answering) Latest(ctx context.Context) (int64, error) {
	n, err := a.Etcd.Latest(ctx)
	return n + a.latest, err
}

func (a answering) HashKV(ctx context.Context, rev int64) (etcd.KVHash, error) {
	h, err := a.Etcd.HashKV(ctx, rev-a.latest)
	h.Hash += a.hash
	return h, err
}

func TestABackupIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		etcd snapshot.Etcd
		free uint64
		want string
	}{
		"of a learner":                       {answering{Etcd: w.etcd, status: func(s *etcd.MemberStatus) { s.Learner = true }}, 1 << 50, "is a learner"},
		"of an etcd without a leader":        {answering{Etcd: w.etcd, status: func(s *etcd.MemberStatus) { s.Leader = 0 }}, 1 << 50, "does not serve"},
		"of a member that lags (L40)":        {answering{Etcd: w.etcd, latest: 1}, 1 << 50, "lags behind"},
		"if the restored keys differ":        {answering{Etcd: w.etcd, hash: 1}, 1 << 50, "hash: the restored keys have the hash"},
		"if it does not fit 2.2 times (L42)": {answering{Etcd: w.etcd, status: func(s *etcd.MemberStatus) { s.DBSize = 1 << 30 }}, 2 << 30, "make room on that file system"},
	} {
		r := w.run(c.etcd, filepath.Join(t.TempDir(), "backups"))
		r.Snapshot.Free = func(string) (uint64, error) { return c.free, nil }
		s, err := r.Do(t.Context(), w.request(0))
		if err == nil || s.Good || !strings.Contains(s.Failed, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Remove(filepath.Join(w.root, "/etc/kubernetes/pki/sa.key")))
	if _, err := w.Do(t.Context(), w.request(0)); err == nil || !strings.Contains(err.Error(), "/etc/kubernetes/pki/sa.key: not there") {
		t.Errorf("without a key of the site: %v", err)
	}
}

// A rotation that ends while a snapshot is taken may drop the key under which the snapshot has a
// Secret, and the files are gathered after the snapshot.
func TestKeysThatChangeDuringASnapshotMakeNoGoodBackup(t *testing.T) {
	for _, path := range []string{apiserver.EncryptionPath, "/etc/kubernetes/pki/ca.crt"} {
		for _, changes := range []int{1, tries} {
			w := newWorld(t)
			w.write(t, path, block+"of before")
			n := 0
			w.Say = func(s backup.State) {
				if s.Phase == backup.PhaseRestore && n < changes {
					n++
					w.write(t, path, strings.Repeat(block, n+1))
				}
			}
			req := w.request(0)
			s, err := w.Do(t.Context(), req)
			if changes == tries {
				if err == nil || s.Good || !strings.Contains(s.Failed, "of this host changed while the snapshot was taken") || !slices.Equal(names(t, w.Catalogue.Dir), []string{".lock"}) {
					t.Errorf("%s changes each time: %+v, %v", path, s, err)
				}
				continue
			}
			if err != nil || !s.Good {
				t.Errorf("%s changes once: %+v, %v", path, s, err)
				continue
			}
			var has string
			_, err = archive.OpenFile(t.Context(), w.Catalogue.Archive(req.ID), "", func(m archive.Member, r io.Reader) error {
				text, err := io.ReadAll(r)
				if m.Path == path {
					has = string(text)
				}
				return err
			})
			if err != nil || has != strings.Repeat(block, 2) {
				t.Errorf("%s changes once: %v, the backup has %q", path, err, has)
			}
		}
	}
}

// L38: the power is cut before and after each step that changes a disk. Afterwards
// nothing counts that is not whole, and the same request ends well.
func TestAPowerCutAtEachStepLeavesNothingThatCounts(t *testing.T) {
	w := newWorld(t)
	steps := 0
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			dir, nas := filepath.Join(t.TempDir(), "backups"), t.TempDir()
			must(t, os.WriteFile(filepath.Join(nas, backup.DefaultMarker), nil, 0o600))
			old, req := w.request(0), w.request(1)
			old.Targets[0].Directory.Path, req.Targets[0].Directory.Path = nas, nas
			req.Remove = []string{old.ID}
			if _, err := w.run(w.etcd, dir).Do(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			cut := &powercut.Cut{At: at, After: after}
			r := w.run(w.etcd, dir)
			r.Effect = cut.Effect
			_, err := r.Do(t.Context(), req)
			if !cut.Dead {
				must(t, err)
				if steps = cut.Effects; steps < 10 {
					t.Errorf("only %d steps", steps)
				}
				return
			}
			whole(t, w, r, nas)
			s, err := w.run(w.etcd, dir).Do(t.Context(), req)
			if err != nil || !s.Good || len(s.NotSent) > 0 {
				t.Fatalf("cut at %d (after: %v), then %+v, %v", at, after, s, err)
			}
			want := []string{".lock", req.ID + "/" + req.ID + ".tar", req.ID + "/entry.json"}
			if got := names(t, dir); !slices.Equal(got, want) {
				t.Fatalf("cut at %d (after: %v) leaves %v", at, after, got)
			}
			whole(t, w, r, nas)
		}
	}
}

// whole compares every backup that counts, here and at the target.
func whole(t *testing.T, w *world, r *Run, nas string) {
	t.Helper()
	entries, broken, err := r.Catalogue.List()
	if err != nil || len(broken) > 0 || len(entries) == 0 {
		t.Fatalf("%v %v %v", entries, broken, err)
	}
	for _, e := range entries {
		if !e.Good {
			t.Errorf("%s is there and not good: %s", e.ID, e.Why())
		}
		if _, err := archive.OpenFile(t.Context(), r.Catalogue.Archive(e.ID), "", nil); err != nil {
			t.Error(err)
		}
		if e.Has("nas") && !host.Exists(filepath.Join(nas, backup.SentName(e.Site, e.Host, e.ID))) && len(entries) == 1 {
			t.Errorf("%s is said to be at the target", e.ID)
		}
	}
	for _, name := range names(t, nas) {
		if !strings.HasSuffix(name, backup.SentEntrySuffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(nas, name))
		must(t, err)
		e, err := backup.DecodeEntry(text)
		must(t, err)
		sent := filepath.Join(nas, backup.SentName(e.Site, e.Host, e.ID))
		if _, err := archive.OpenFile(t.Context(), sent, w.identity.String(), nil); err != nil || !e.Has("nas") {
			t.Errorf("%s lists a backup that is not whole: %v", name, err)
		}
	}
}

func TestATargetThatFailsIsToldAndTriedAgainWithoutAnotherSnapshot(t *testing.T) {
	w := newWorld(t)
	must(t, os.Remove(filepath.Join(w.nas, backup.DefaultMarker)))
	s, err := w.Do(t.Context(), w.request(0))
	if err != nil || !s.Good || len(s.NotSent) != 1 || !strings.Contains(s.NotSent[0], "its marker is not there") {
		t.Fatalf("%+v %v", s, err)
	}
	before, err := w.Catalogue.Entry(w.request(0).ID)
	must(t, err)
	if before.Has("nas") || before.Copies[0].Failed == "" || len(names(t, w.nas)) > 0 {
		t.Errorf("%+v, %v", before.Copies, names(t, w.nas))
	}
	must(t, os.WriteFile(filepath.Join(w.nas, backup.DefaultMarker), nil, 0o600))
	s, err = w.Do(t.Context(), w.request(0))
	after, _ := w.Catalogue.Entry(w.request(0).ID)
	if err != nil || len(s.NotSent) > 0 || !after.Has("nas") || after.File != before.File {
		t.Errorf("%+v %v %+v", s, err, after.Copies)
	}
}

// L41, first half: a bit of the archive flips on the host's disk after everything was
// compared, and before it is sent.
func TestABitThatFlipsBeforeItIsSentMakesTheBackupBad(t *testing.T) {
	w := newWorld(t)
	req := w.request(0)
	targets := req.Targets
	req.Targets = nil
	_, err := w.Do(t.Context(), req)
	must(t, err)
	f, err := os.OpenFile(w.Catalogue.Archive(req.ID), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0xff, 0x5a}, 9000)
	must(t, errors.Join(err, f.Close()))
	req.Targets = targets
	s, err := w.Do(t.Context(), req)
	e, _ := w.Catalogue.Entry(req.ID)
	if !errors.Is(err, errRotten) || s.Good || e.Good || len(names(t, w.nas)) != 1 {
		t.Errorf("%+v %v %+v", s, err, e)
	}
}

func TestAnEndedContextLeavesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the peer was lost")
	w.Say = func(s backup.State) {
		if s.Phase == backup.PhaseRestore {
			cancel(left)
		}
	}
	s, err := w.Do(ctx, w.request(0))
	if !errors.Is(err, left) || s.Good || !slices.Equal(names(t, w.Catalogue.Dir), []string{".lock"}) {
		t.Errorf("%+v %v, left are %v", s, err, names(t, w.Catalogue.Dir))
	}
}

// A target that takes no copies any more, but lets its files be removed, keeps the last copy that it
// has, whatever the request says.
func TestTheLastCopyAtATargetIsNeverRemoved(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.request(0), w.request(1), w.request(2)
	_, err := w.Do(t.Context(), first)
	must(t, err)
	w.Open = func(ctx context.Context, t backup.Target) (target.Target, error) {
		to, err := target.Open(ctx, t)
		return refusing{to}, err
	}
	for _, req := range []backup.Request{second, third} {
		if s, err := w.Do(t.Context(), req); err != nil || len(s.NotSent) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	tend := backup.Request{Site: first.Site, Host: first.Host, Targets: first.Targets, Remove: []string{first.ID, second.ID}}
	_, err = w.Do(t.Context(), tend)
	must(t, err)
	if got := ids(t, w.Run); !slices.Equal(got, []string{first.ID, third.ID}) || len(names(t, w.nas)) != 3 {
		t.Errorf("kept are %v, at the target are %v", got, names(t, w.nas))
	}
	w.Open = target.Open
	third.Remove = tend.Remove
	_, err = w.Do(t.Context(), third)
	must(t, err)
	if got := ids(t, w.Run); !slices.Equal(got, []string{third.ID}) || len(names(t, w.nas)) != 3 {
		t.Errorf("after a new copy: kept are %v, at the target are %v", got, names(t, w.nas))
	}
}

// refusing is a target that takes nothing any more.
type refusing struct{ target.Target }

func (refusing) Put(context.Context, string, io.ReadSeeker, int64) error {
	return errors.New("quota exceeded")
}

// ids lists the backups in the catalogue of a host.
func ids(t *testing.T, r *Run) []string {
	t.Helper()
	entries, _, err := r.Catalogue.List()
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.ID)
	}
	return out
}

// On a full disk nothing can be sent, and what is to be removed is what makes room.
func TestWhatIsToBeRemovedGoesAlsoIfNothingCanBeSent(t *testing.T) {
	w := newWorld(t)
	first, second := w.request(0), w.request(1)
	targets := first.Targets
	for _, req := range []*backup.Request{&first, &second} {
		req.Targets = nil
		_, err := w.Do(t.Context(), *req)
		must(t, err)
	}
	second.Targets, second.Remove = targets, []string{first.ID}
	w.Snapshot.Free = func(string) (uint64, error) { return 1, nil }
	s, err := w.Do(t.Context(), second)
	if err == nil || !strings.Contains(s.Failed, "the encrypted archive needs") || !slices.Equal(ids(t, w.Run), []string{second.ID}) {
		t.Errorf("%+v, %v, kept are %v", s, err, ids(t, w.Run))
	}
	e, err := w.Catalogue.Entry(second.ID)
	if err != nil || !e.Good || e.Has("nas") || len(e.Copies) != 1 || !strings.Contains(e.Copies[0].Failed, "the encrypted archive needs") || len(s.NotSent) != 1 {
		t.Errorf("%v, %+v: nobody reads why the target lacks it: %+v", err, s, e.Copies)
	}
	third := w.request(2)
	third.Remove = []string{second.ID}
	if s, err := w.Do(t.Context(), third); err == nil || s.Good || !slices.Equal(ids(t, w.Run), []string{second.ID}) {
		t.Errorf("after none was taken: %+v, %v, kept are %v", s, err, ids(t, w.Run))
	}
}

// A backup of a clock that was ahead is nobody's newest one, so it must not stand for the last one.
func TestABackupOfAClockThatWasAheadIsNoReasonToRemoveTheLastOne(t *testing.T) {
	entry := func(hours int, at string) backup.Entry {
		taken := noon.Add(time.Duration(hours) * time.Hour)
		e := backup.Entry{ID: backup.NewID("cp-1", taken), Host: "cp-1", Taken: taken, Good: true}
		if at != "" {
			e = e.WithCopy(backup.Copy{Target: at, Verified: noon})
		}
		return e
	}
	req := backup.Request{Host: "cp-1", Targets: []backup.Target{{Name: "nas"}}}
	for what, c := range map[string]struct {
		entries []backup.Entry // the first is to go
		may     bool
	}{
		"the last real one":                 {[]backup.Entry{entry(-1, ""), entry(9000, "")}, false},
		"the last real copy":                {[]backup.Entry{entry(-9, "nas"), entry(-1, ""), entry(9000, "nas")}, false},
		"an older real copy":                {[]backup.Entry{entry(-9, "nas"), entry(-1, "nas"), entry(9000, "nas")}, true},
		"one that was ahead":                {[]backup.Entry{entry(9000, "nas"), entry(-1, "nas")}, true},
		"the last copy, which was ahead":    {[]backup.Entry{entry(9000, "nas"), entry(-1, "")}, false},
		"the last one of all, and was so":   {[]backup.Entry{entry(9000, "")}, false},
		"one of two copies that were ahead": {[]backup.Entry{entry(9000, "nas"), entry(9001, "nas"), entry(-1, "")}, true},
	} {
		if _, may := removable(c.entries, c.entries[0].ID, req, noon); may != c.may {
			t.Errorf("%s: may go: %v", what, may)
		}
	}
}

// L59: no request removes the last good backup, or anything that is not in the catalogue of
// this host.
func TestTheLastGoodBackupIsNeverRemoved(t *testing.T) {
	w := newWorld(t)
	first, second := w.request(0), w.request(1)
	_, err := w.Do(t.Context(), first)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(w.Catalogue.Dir, backup.NewID("cp-1", noon.AddDate(1, 0, 0))), 0o700))
	second.Remove = []string{first.ID, second.ID, backup.NewID("cp-1", noon.AddDate(1, 0, 0))}
	_, err = w.Do(t.Context(), second)
	must(t, err)
	entries, broken, err := w.Catalogue.List()
	if err != nil || len(entries) != 1 || entries[0].ID != second.ID || len(broken) != 1 {
		t.Errorf("%v %v %v", entries, broken, err)
	}
	if got := names(t, w.nas); len(got) != 3 {
		t.Errorf("at the target: %v", got)
	}
}
