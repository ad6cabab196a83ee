package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

// forget takes all backups of the hosts away.
func (w *world) forget() {
	w.t.Helper()
	for _, h := range w.hosts {
		h.kept = nil
		w.says(h)
	}
}

// soaks plays until the site soaks.
func (w *world) soaks() {
	w.t.Helper()
	w.until("it soaks", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) })
}

// TestABackupIsTakenBeforeTheFirstHostAndBeforeTheCommitOnceEach with an operator that is
// killed before and after each of its writes.
func TestABackupIsTakenBeforeTheFirstHostAndBeforeTheCommitOnceEach(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 0}, {3, 0}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, size[0], size[1])
			w.begins()
			w.writes = writesKilled(w)
			w.until("a host has its turn", func() bool { return len(w.record().Turns) > 0 })
			if !slices.Equal(w.backups, []string{"cp-1 before-upgrade"}) {
				t.Fatalf("taken were %q", w.backups)
			}
			if b := w.hosts["cp-1"].kept[0]; b.Release != oldImage || w.now.Sub(b.Taken) > time.Hour {
				t.Errorf("%+v", b)
			}
			w.soaks()
			w.forget() // as after a soak of a week
			for range 5 {
				_ = w.round()
			}
			if len(w.backups) != 1 {
				t.Errorf("in the soak taken were %q", w.backups)
			}
			w.annotate(annotation.CommitOf, w.record().Upgrade)
			w.until("it is over", func() bool { return !w.record().Started })
			if !slices.Equal(w.backups, []string{"cp-1 before-upgrade", "cp-1 before-commit"}) {
				t.Errorf("taken were %q", w.backups)
			}
		})
	}
}

// TestABackupIsTakenOnlyWhereNoGoodOneIsThere that is young and of the old release, and where
// nobody skips it.
func TestABackupIsTakenOnlyWhereNoGoodOneIsThere(t *testing.T) {
	for what, c := range map[string]struct {
		has   backup.Brief
		skip  bool
		takes int
	}{
		"a young one":                    {backup.Brief{ID: "b", Good: true, Release: oldImage}, false, 0},
		"a bad one":                      {backup.Brief{ID: "b", Release: oldImage}, false, 1},
		"one of another release":         {backup.Brief{ID: "b", Good: true, Release: newImage}, false, 1},
		"an old one":                     {backup.Brief{ID: "b", Good: true, Release: oldImage, Taken: noon}, false, 1},
		"an old one, and it is skipped":  {backup.Brief{ID: "b", Good: true, Release: oldImage, Taken: noon}, true, 0},
		"none that anybody tells of yet": {backup.Brief{}, false, 1},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 2, 0)
			w.begins()
			if c.has.Taken.IsZero() {
				c.has.Taken = w.now.Add(-time.Hour)
			}
			if c.has.ID != "" {
				w.hosts["cp-2"].kept = []backup.Brief{c.has}
				w.says(w.hosts["cp-2"])
			}
			if c.skip {
				w.annotate(annotation.OverridesOf, `[{"gate":"backup","reason":"the NAS has one","by":"ada","at":"2026-11-24T12:00:00Z"}]`)
			}
			w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
			if len(w.backups) != c.takes {
				t.Errorf("taken were %q", w.backups)
			}
			if c.skip && !strings.Contains(w.version().Status.History[0].AcceptedRisks, "ada skipped backup") {
				t.Errorf("the history has %+v", w.version().Status.History[0])
			}
		})
	}
}

// TestNoBackupIsAskedForWhileSomethingElseHoldsTheUpgrade: it would be too old once that is
// over.
func TestNoBackupIsAskedForWhileSomethingElseHoldsTheUpgrade(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.clockless = true
	w.begins()
	w.until("it pauses", func() bool { return strings.Contains(w.condition("Failing"), "clock-source") })
	for range 10 {
		must(t, w.round())
	}
	if got := w.condition("Failing"); !strings.Contains(got, "backup: there is no good backup that was taken with Holdfast 0.1.0; one is taken once nothing else holds the upgrade") {
		t.Errorf("it says %s", got)
	}
	for _, name := range w.names() {
		if wish := w.node(name).Annotations[backup.WantedOf]; wish != "" || len(w.backups) > 0 {
			t.Errorf("%s is asked %q", name, wish)
		}
	}
	w.annotate(annotation.PausedBy, "until Monday")
	w.clockless = false
	for range 5 {
		must(t, w.round())
	}
	if len(w.backups) > 0 {
		t.Errorf("it is paused, and %q were taken", w.backups)
	}
}

// TestABackupThatFailsHoldsTheUpgradeWithItsCauseAndAPersonTakesItAnew: no host begins, nobody
// is asked a second time, and what the person asked for is left alone.
func TestABackupThatFailsHoldsTheUpgradeWithItsCauseAndAPersonTakesItAnew(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.badBackup = "restore: the snapshot has 7 keys, and etcd has 8"
	w.begins()
	w.until("it is told", func() bool { return strings.Contains(w.condition("Failing"), "made no good one") })
	wish := w.node("cp-1").Annotations[backup.WantedOf]
	for range 20 {
		must(t, w.round())
	}
	at := backup.ReadAsked(wish).At.Format(time.RFC3339)
	if got, want := w.condition("Failing"), "True Paused backup: there is no good backup that was taken with Holdfast 0.1.0; cp-1 was asked for one at "+at+", and made no good one: "+w.badBackup; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	if again := w.node("cp-1").Annotations[backup.WantedOf]; again != wish || w.node("cp-2").Annotations[backup.WantedOf] != "" || w.record().Backup.Text != wish {
		t.Errorf("asked was %q, and %q", wish, again)
	}
	for _, h := range w.hosts {
		if h.journal.Upgrade != "" {
			t.Errorf("%s began", h.name)
		}
	}
	w.badBackup = ""
	person := backup.Ask(w.now, "again")
	n := w.node("cp-1")
	n.Annotations[backup.WantedOf] = person
	must(t, w.admin.Update(t.Context(), n))
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	if got := w.node("cp-1").Annotations[backup.WantedOf]; got != person || !slices.Equal(w.backups, []string{"cp-1 again"}) {
		t.Errorf("at the node stands %q, taken were %q", got, w.backups)
	}
}

// TestAWishForABackupThatSomebodyRemovedIsWrittenAgain until the host has answered it.
func TestAWishForABackupThatSomebodyRemovedIsWrittenAgain(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.begins()
	for range 30 { // the host fetches the release, and does not look at its wish yet
		must(t, w.look())
		h := w.hosts["cp-1"]
		h.whole = []string{oldImage, newImage}
		w.says(h)
		w.now = w.now.Add(time.Second)
	}
	wish := w.node("cp-1").Annotations[backup.WantedOf]
	if got := w.condition("Failing"); wish == "" || !strings.Contains(got, "and has not begun yet") {
		t.Fatalf("it is asked %q, and it says %s", wish, got)
	}
	n := w.node("cp-1")
	delete(n.Annotations, backup.WantedOf)
	must(t, w.admin.Update(t.Context(), n))
	must(t, w.look())
	if got := w.node("cp-1").Annotations[backup.WantedOf]; got != wish {
		t.Errorf("it is asked %q, want %q", got, wish)
	}
	w.act(w.hosts["cp-1"])
	n = w.node("cp-1")
	delete(n.Annotations, backup.WantedOf)
	must(t, w.admin.Update(t.Context(), n))
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	if got := w.node("cp-1").Annotations[backup.WantedOf]; got != "" || len(w.backups) != 1 {
		t.Errorf("it is asked %q, taken were %q", got, w.backups)
	}
}

// TestTheCommitWaitsForABackupAndTheSoakGoesOn: a person may commit without one.
func TestTheCommitWaitsForABackupAndTheSoakGoesOn(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	w.soaks()
	w.forget()
	w.badBackup = "the disk is full"
	w.annotate(annotation.CommitOf, w.record().Upgrade)
	w.until("it waits", func() bool {
		got := w.condition("Failing")
		return strings.HasPrefix(got, "True Paused backup-commit: there is no good backup; cp-1 was asked for one at ") && strings.HasSuffix(got, ", and made no good one: the disk is full")
	})
	healthy := w.record().Healthy
	for range 10 {
		must(t, w.round())
	}
	if r := w.record(); r.NoWayBack || r.Healthy <= healthy || r.Seen.IsZero() {
		t.Errorf("%+v, before it were %s", r, healthy)
	}
	w.annotate(annotation.OverridesOf, `[{"gate":"backup-commit","reason":"the NAS has one","by":"ada","at":"2026-11-24T12:00:00Z"}]`)
	w.until("it is over", func() bool { return !w.record().Started })
	if !w.everywhere(newImage) || !slices.Equal(w.backups, []string{"cp-1 before-upgrade"}) {
		t.Errorf("taken were %q", w.backups)
	}
}

// TestAHostThatTellsNothingOfBackupsIsNotTakenForOneThatHasSome.
func TestAHostThatTellsNothingOfBackupsIsNotTakenForOneThatHasSome(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.begins()
	for range 10 {
		n := w.node("cp-1")
		delete(n.Annotations, backup.Annotation)
		must(t, w.admin.Update(t.Context(), n))
		must(t, w.look())
		w.act(w.hosts["cp-1"])
		w.now = w.now.Add(20 * time.Second)
	}
	if got := w.condition("Failing"); !strings.Contains(got, "backup: whether there is a good backup is not known") || w.hosts["cp-1"].journal.Upgrade != "" || len(w.backups) > 0 {
		t.Errorf("it says %s, taken were %q", got, w.backups)
	}
}
