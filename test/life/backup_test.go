package life_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/test/labsite"
)

// slowerBy is how much longer than without a backup nobody may write after a power cut that
// strikes during one. Of two such cuts one takes up to two seconds longer than the other.
const slowerBy = 2 * time.Second

// TestABackupSurvivesPowerCuts cuts the power while a control plane takes a backup under load: of
// that host, in each phase of the work, and of the other one. No backup counts as good that cannot
// be restored, the next one is good, and nobody is without the cluster for longer than after the
// same cut without a backup, which comes first.
//
// It takes about four minutes for each of six cuts.
func TestABackupSurvivesPowerCuts(t *testing.T) {
	planes := open(t).ControlPlanes()
	if len(planes) < 2 {
		t.Skip("NOT TESTED: a single control plane serves nobody while its power is away")
	}
	taker, other := planes[len(planes)-1], planes[0]
	alone := map[string]time.Duration{}
	for _, victim := range []string{taker, other} {
		play(t, "power cut of "+victim+" without a backup", func(tr *trial) { alone[victim] = tr.cutPower(victim, "") })
	}
	filled := false
	for _, c := range []struct {
		victim string
		phase  backup.Phase
	}{
		{taker, backup.PhaseSnapshot},
		{taker, backup.PhaseRestore},
		{taker, backup.PhasePack},
		{taker, backup.PhaseReread},
		{other, backup.PhaseSnapshot},
		{other, backup.PhaseRestore},
	} {
		if t.Failed() {
			return
		}
		play(t, fmt.Sprintf("power cut of %s while %s is in the phase %s of a backup", c.victim, taker, c.phase), func(tr *trial) {
			if !filled { // each phase lasts long enough to be seen; what etcd has it keeps for a while
				tr.fill()
				filled = true
			}
			asked := tr.Now()
			tr.says(0, "backup", "now", "--host", taker, "--no-wait", "--reason", "a test cuts the power")
			tr.atPhase(taker, c.phase, asked)
			// Where a backup is stands in memory, which the power cut empties: of the taker itself
			// nothing tells afterwards whether the phase still held.
			if gap := tr.cutPower(c.victim, taker); gap > alone[c.victim]+slowerBy {
				tr.Errorf("nobody could write for %s, without a backup it was %s", gap, alone[c.victim])
			}
			tr.onlyGoodBackups(taker)
			tr.says(0, "backup", "now", "--host", taker, "--reason", "after the power cut")
			tr.onlyGoodBackups(taker)
			rest := tr.On(taker, "find "+backup.Dir+" -mindepth 1 -maxdepth 1 -name '.*' ! -name .lock")
			if rest != "" {
				tr.Errorf("%s has still the rest of a backup that was cut off:\n%s", taker, rest)
			}
		})
	}
}

// cutPower cuts the power of a host, waits until the site is whole, and returns for how long
// nobody could write by any way.
func (tr *trial) cutPower(victim, taker string) time.Duration {
	tr.Helper()
	cut := tr.Now()
	from := tr.rec.At(time.Now())
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
	if taker != "" && taker != victim {
		data, err := tr.ReadFile(tr.Context(), taker, backup.StatePath)
		tr.Logf("right after %s lost its power %s says of its backup: %s (%v)", victim, taker, data, err)
	}
	tr.BootedAgain(victim, cut)
	tr.Eventually(5*time.Minute, "the site is whole", func() error { return tr.Whole(tr.Context()) })
	h := tr.rec.Copy()
	gap := h.Gap("", from, h.End()).Length
	tr.Trial.Took("no write after the power cut", gap)
	tr.Logf("%s lost its power, a backup was on its way on %q: nobody could write for %.1f s", victim, taker, gap.Seconds())
	tr.outages(cut)
	return gap
}

// phaseEvery is the pause between two looks at the phase of a backup.
const phaseEvery = 5 * time.Millisecond

// atPhase waits until a host is in a phase of a backup that was wanted after a moment.
func (tr *trial) atPhase(host string, phase backup.Phase, asked time.Time) {
	tr.Helper()
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		tr.Fatal(err)
	}
	err = labsite.Until(tr.Context(), 3*time.Minute, phaseEvery, func() error {
		data, err := os.ReadFile(filepath.Join(root, backup.StatePath)) // #nosec G304 -- of a host of the lab
		if err != nil {
			return err
		}
		var s backup.State
		if err := json.Unmarshal(data, &s); err != nil || s.Began.Before(asked) || s.Phase != phase || s.Ended {
			return fmt.Errorf("it is in the phase %q of %s (ended: %v), %w", s.Phase, s.Began.UTC().Format(time.TimeOnly), s.Ended, err)
		}
		return nil
	})
	if err != nil {
		tr.Fatalf("%s was not seen in the phase %s: %v", host, phase, err)
	}
}

// onlyGoodBackups checks that each backup which a host calls good can be restored.
func (tr *trial) onlyGoodBackups(host string) {
	tr.Helper()
	node, err := tr.node(host)
	if err != nil {
		tr.Fatal(err)
	}
	var told decide.Summary
	if err := json.Unmarshal([]byte(node.Annotations[decide.Annotation]), &told); err != nil {
		tr.Fatalf("what %s tells of its backups: %v", host, err)
	}
	good := 0
	for _, b := range told.Kept {
		if !b.Good {
			tr.Logf("%s has the backup %s, which is not good: %s", host, b.ID, b.Why)
			continue
		}
		good++
		if out, err := tr.Sh(tr.Context(), host, "holdfast backup verify "+path.Join(backup.Dir, b.ID, backup.ArchiveName(b.ID))+" 2>&1"); err != nil {
			tr.Errorf("%s calls the backup %s good, and it cannot be restored: %v\n%s", host, b.ID, err, out)
		}
	}
	tr.Logf("%s has %d backups, of which %d are good", host, len(told.Kept), good)
}
