package catalogue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/backup"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// publish puts a backup with an archive of some bytes there.
func publish(t *testing.T, c Catalogue, at time.Time) backup.Entry {
	t.Helper()
	e := backup.Entry{Format: backup.Format, ID: backup.NewID("cp-1", at), Host: "cp-1", File: backup.File{Size: 3}, Checks: []backup.Check{{Name: "hash", OK: true}}}.Judge()
	dir, err := c.Begin(e.ID)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, backup.ArchiveName(e.ID)), []byte("abc"), 0o600))
	if list, _, err := c.List(); err != nil || slices.ContainsFunc(list, func(o backup.Entry) bool { return o.ID == e.ID }) {
		t.Errorf("%v %v: it is there before it is published", list, err)
	}
	must(t, c.Publish(e))
	return e
}

func TestABackupAppearsAndDisappearsAtOnce(t *testing.T) {
	c := Catalogue{Dir: t.TempDir()}
	late, early := publish(t, c, noon), publish(t, c, noon.Add(-time.Hour))
	list, broken, err := c.List()
	if err != nil || len(broken) > 0 || len(list) != 2 || list[0].ID != early.ID || !list[1].Good {
		t.Errorf("%v %v %v", list, broken, err)
	}
	must(t, c.Remove(early.ID))
	must(t, c.Remove(early.ID))
	if list, _, err := c.List(); err != nil || len(list) != 1 || list[0].ID != late.ID {
		t.Errorf("%v %v", list, err)
	}
	if c.Remove("../x") == nil {
		t.Error("a path is removed")
	}
	must(t, os.MkdirAll(filepath.Join(c.Dir, "mine"), 0o700))
	must(t, os.WriteFile(filepath.Join(c.Dir, "mine", backup.EntryName), []byte("{}"), 0o600))
	if _, err := c.Entry("mine"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is no backup: %v", err)
	}
}

// A restore from a file of no bytes was taken for one in the field.
func TestAnArchiveThatIsGoneOrHasAnotherSizeIsBad(t *testing.T) {
	c := Catalogue{Dir: t.TempDir()}
	for name, damage := range map[string]func(path string) error{
		"empty": func(p string) error { return os.Truncate(p, 0) }, "gone": os.Remove, "cut": func(p string) error { return os.Truncate(p, 2) },
	} {
		e := publish(t, c, noon)
		must(t, damage(c.Archive(e.ID)))
		if got, err := c.Entry(e.ID); err != nil || got.Good || !strings.HasPrefix(got.Why(), "file: ") {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		must(t, c.Remove(e.ID))
	}
}

func TestASweepRemovesWhatWasCutOffAndNothingElse(t *testing.T) {
	c := Catalogue{Dir: t.TempDir()}
	e := publish(t, c, noon)
	_, err := c.Begin(backup.NewID("cp-1", noon.Add(time.Hour)))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.Dir, "mine.tar"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(c.Dir, backup.NewID("cp-1", noon.Add(2*time.Hour))), 0o700))
	if is, err := c.Remains(); !is || err != nil {
		t.Errorf("before a sweep: %t, %v", is, err)
	}
	must(t, c.Sweep())
	if is, err := c.Remains(); is || err != nil {
		t.Errorf("after it: %t, %v", is, err)
	}
	if is, err := (Catalogue{Dir: filepath.Join(c.Dir, "none")}).Remains(); is || err != nil {
		t.Errorf("before the first backup: %t, %v", is, err)
	}
	left, err := os.ReadDir(c.Dir)
	must(t, err)
	var names []string
	for _, f := range left {
		names = append(names, f.Name())
	}
	if want := []string{e.ID, backup.NewID("cp-1", noon.Add(2*time.Hour)), "mine.tar"}; !slices.Equal(names, want) {
		t.Errorf("left %v, want %v", names, want)
	}
	if _, broken, err := c.List(); err != nil || len(broken) != 1 {
		t.Errorf("a folder without an entry: %v %v", broken, err)
	}
}

func TestTwoProgramsDoNotWorkAtOnce(t *testing.T) {
	c := Catalogue{Dir: filepath.Join(t.TempDir(), "backups")}
	unlock, err := c.Lock()
	must(t, err)
	if _, err := c.Lock(); err == nil {
		t.Error("both work")
	}
	unlock()
	again, err := c.Lock()
	must(t, err)
	again()
}
