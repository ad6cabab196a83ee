package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A backup of a large database was on its way when another program filled the disk. It was ended, and
// killed before it had removed its files.
func TestWhatAKilledRunLeftOnAFullDiskIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.run(15*time.Minute + 20*time.Second)
	if !w.works {
		t.Fatalf("no backup is on its way: %q", w.started)
	}
	w.free, w.rest = 1<<30, true // the run that goes on writes it
	w.run(2 * time.Second)
	if w.works || !w.rest || len(w.started) != 1 {
		t.Fatalf("it was not ended: %q", w.started)
	}
	w.run(3 * time.Minute)
	if got := w.started[1:]; w.rest || !slices.Equal(got, []string{" " + decide.Tend}) {
		t.Errorf("it lies there: %t, started %q", w.rest, got)
	}
	w.free = 100 << 30
	w.run(time.Hour)
	if s := w.summary(); len(w.good()) != 1 || s.Failed != nil {
		t.Errorf("%q, %+v", w.started, s)
	}
}

// The disk is full to the last byte, and etcd, which lies on it, has died. The agent cannot write its journal.
func TestWhatAKilledRunLeftOnADiskWithoutAFreeByteIsRemoved(t *testing.T) {
	for name, etcd := range map[string]state.Fact[decide.Etcd]{"it takes no writes": state.Known(decide.Etcd{}), "nobody knows of it": {}} {
		for _, anew := range []bool{false, true} {
			w := newWorld(t)
			w.run(15*time.Minute + 20*time.Second)
			w.free, w.rest, w.full, w.etcd, w.works = 0, true, true, etcd, false // and the run was killed
			if anew {
				w.restart()
			}
			w.run(3 * time.Minute)
			if got := w.started[1:]; w.rest || w.full || !slices.Equal(got, []string{" " + decide.Tend}) {
				t.Errorf("%s, %t: it lies there: %t, started %q", name, anew, w.rest, got)
			}
			if w.a.journal.Begun != nil || w.a.journal.Sweeps != 0 {
				t.Errorf("%s, %t: %+v", name, anew, w.a.journal)
			}
			w.free, w.etcd = 100<<30, state.Known(decide.Etcd{Writes: true})
			w.run(time.Hour)
			if len(w.good()) != 1 {
				t.Errorf("%s, %t: %q", name, anew, w.started)
			}
		}
	}
}

func TestWhileEtcdIsDownARunRemovesWhatAKilledOneLeftAndNoBackup(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *", RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: 1}}}
	w.run(3 * time.Hour)
	if len(w.catalogue) != 1 {
		t.Fatalf("%d backups are there", len(w.catalogue))
	}
	old := w.catalogue[0]
	old.Taken = old.Taken.Add(-time.Hour)
	old.ID = model.NewID("cp-1", old.Taken)
	w.catalogue, w.rest, w.etcd.Value.Writes = append([]model.Entry{old}, w.catalogue...), true, false
	w.run(20 * time.Minute)
	if w.rest || len(w.catalogue) != 2 {
		t.Errorf("it lies there: %t, %d backups are there, started %q", w.rest, len(w.catalogue), w.started)
	}
	w.etcd.Value.Writes = true
	w.run(20 * time.Minute)
	if len(w.catalogue) != 1 || w.catalogue[0].ID == old.ID {
		t.Errorf("%d backups are there, started %q", len(w.catalogue), w.started)
	}
}

// A site may have kubelet want more free than an installation does.
func TestNoBackupTakesWhatKubeletOfTheSiteWantsFree(t *testing.T) {
	w := newWorld(t)
	w.free, w.line = 16<<30, 20<<30
	w.run(time.Hour)
	if s := w.summary(); len(w.started) > 0 || !strings.Contains(s.Waits, "20480 MiB must stay free") {
		t.Errorf("%q, %+v", w.started, s)
	}
}

// The host forgets a backup that it removed, also where its target keeps the copy.
func TestCopiesThatATargetKeepsAreToldUntilARunRemovesThem(t *testing.T) {
	w := newWorld(t)
	w.spec = &configv1alpha1.EtcdBackupSpec{Schedule: "0 */2 * * *", RetentionPolicy: configv1alpha1.RetentionPolicy{RetentionType: configv1alpha1.RetentionTypeNumber, RetentionNumber: &configv1alpha1.RetentionNumberConfig{MaxNumberOfBackups: 1}}}
	w.secret = secretText
	for _, left := range [][]string{nil, {"20260309T030000Z-cp-1 at nas: permission denied"}, nil} {
		w.left = left
		w.run(5 * time.Hour)
		if s := w.summary(); !slices.Equal(s.Left, left) || len(s.Kept) != 1 {
			t.Errorf("it tells of %q, want %q: %d are kept", s.Left, left, len(s.Kept))
		}
		w.restart() // the journal has them
	}
}
