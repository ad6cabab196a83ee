package takebackup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/testkit/sshdtest"
)

// withoutEntries is a target to which the power is cut before an entry.
type withoutEntries struct{ target.Target }

func (w withoutEntries) Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	if strings.HasSuffix(name, backup.SentEntrySuffix) {
		return errors.New("the power was cut")
	}
	return w.Target.Put(ctx, name, from, size)
}

func TestWhatACopyThatWasCutOffLeavesAtAServerDoesNotCountAndIsRemovedByTheNextOne(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 2000)
	s := sshdtest.Start(t, "127.0.0.1", "")
	line := sshdtest.NewLine(t, s.Address, 0)
	where := s.SFTP
	where.Server = line.Address
	request := func(n int) backup.Request {
		req := w.request(n)
		req.Targets = []backup.Target{{Name: "attic", SFTP: &where}}
		return req
	}
	sent := func(n int, suffix string) string {
		return strings.TrimSuffix(backup.SentName("shop.example.com", "cp-1", request(n).ID), backup.SentSuffix) + suffix
	}
	former := backup.SentName("shop.example.com", "cp-1", "20250101T000000Z-cp-1")
	to, err := target.Open(t.Context(), request(0).Targets[0])
	must(t, err)
	must(t, to.Put(t.Context(), former, bytes.NewReader([]byte("of a former host")), 16))
	must(t, to.Close())

	do := func(n int, fails string, want ...string) {
		t.Helper()
		state, err := w.Do(t.Context(), request(n))
		must(t, err)
		if told := strings.Join(state.NotSent, "\n"); !state.Good || len(state.Left) > 0 || (fails == "") != (told == "") || !strings.Contains(told, fails) {
			t.Errorf("%d: %+v", n, state)
		}
		want = append(want, former)
		slices.Sort(want)
		if got := names(t, s.Dir); !slices.Equal(got, want) {
			t.Errorf("%d: there are %v, want %v", n, got, want)
		}
	}
	line.CutAfter(200_000)
	do(0, "attic: ", sent(0, ".tar.age.part"))
	line.Mend()
	w.Open = func(ctx context.Context, t backup.Target) (target.Target, error) {
		to, err := target.Open(ctx, t)
		return withoutEntries{to}, err
	}
	do(1, "the power was cut", sent(1, ".tar.age"))
	w.Open = target.Open
	do(2, "", sent(2, ".tar.age"), sent(2, ".json"))
	do(1, "", sent(1, ".tar.age"), sent(1, ".json"), sent(2, ".tar.age"), sent(2, ".json"))

	where.HostKeys = sshdtest.Start(t, "127.0.0.1", "").SFTP.HostKeys
	do(3, target.ErrOtherServer.Error(), sent(1, ".tar.age"), sent(1, ".json"), sent(2, ".tar.age"), sent(2, ".json"))
	entry, err := w.Catalogue.Entry(request(3).ID)
	must(t, err)
	if !entry.Good || entry.Has("attic") {
		t.Errorf("%+v", entry)
	}

	where.HostKeys = s.SFTP.HostKeys
	req := request(4)
	req.Remove = []string{request(1).ID}
	state, err := w.Do(t.Context(), req)
	must(t, err)
	if got := names(t, s.Dir); len(state.NotSent)+len(state.Left) > 0 || slices.Contains(got, sent(1, ".tar.age")) || slices.Contains(got, sent(1, ".json")) || !slices.Contains(got, sent(4, ".json")) {
		t.Errorf("%+v, there are %v", state, got)
	}
	if _, err := w.Catalogue.Entry(request(1).ID); err == nil {
		t.Errorf("%s is still here", filepath.Base(req.Remove[0]))
	}
}

// The power is cut after a copy was whole and before the host wrote that down, and once more in the
// next sending, whose archive is encrypted anew: the former entry does not say that this is a copy.
func TestASecondSendingThatIsCutOffLeavesNoEntryOfTheFirst(t *testing.T) {
	w := newWorld(t)
	req := w.request(0)
	archive := filepath.Join(w.nas, backup.SentName(req.Site, req.Host, req.ID))
	_, err := w.Do(t.Context(), req)
	must(t, err)
	first, err := os.ReadFile(archive)
	must(t, err)
	entry, err := w.Catalogue.Entry(req.ID)
	must(t, err)
	entry.Copies = nil
	must(t, w.Catalogue.Update(entry))
	w.Open = func(ctx context.Context, t backup.Target) (target.Target, error) {
		to, err := target.Open(ctx, t)
		return withoutEntries{to}, err
	}
	if s, err := w.Do(t.Context(), req); err != nil || len(s.NotSent) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	second, err := os.ReadFile(archive)
	must(t, err)
	if got := names(t, w.nas); bytes.Equal(first, second) || len(got) != 2 {
		t.Errorf("another archive: %v, and there are %v", !bytes.Equal(first, second), got)
	}
	w.Open = target.Open
	if s, err := w.Do(t.Context(), req); err != nil || len(s.NotSent) > 0 || len(names(t, w.nas)) != 3 {
		t.Errorf("%+v, %v, there are %v", s, err, names(t, w.nas))
	}
}

// TestARunThatTakesNoneRemovesWhatAKilledOneLeft, and nothing of one that is at work.
func TestARunThatTakesNoneRemovesWhatAKilledOneLeft(t *testing.T) {
	r := (&world{root: t.TempDir()}).run(nil, filepath.Join(t.TempDir(), "backups"))
	unlock, err := r.Catalogue.Lock()
	must(t, err)
	_, err = r.Catalogue.Begin("20261125T120000Z-cp-1")
	must(t, err)
	none := backup.Request{Site: "shop.example.com", Host: "cp-1", Reason: "tend"}
	_, err = r.Do(t.Context(), none)
	if is, _ := r.Catalogue.Remains(); err == nil || !is {
		t.Errorf("while one is at work: %t, %v", is, err)
	}
	unlock()
	_, err = r.Do(t.Context(), none)
	if is, _ := r.Catalogue.Remains(); err != nil || is {
		t.Errorf("after it was killed: %t, %v", is, err)
	}
}
