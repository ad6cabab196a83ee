package standing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// backedUp adds backups to a healthy pair: taken before a time each.
func backedUp(t *testing.T, ago time.Duration, change func(s *backup.Summary)) Facts {
	t.Helper()
	f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	for i := range f.Hosts {
		s := backup.Summary{
			Schedule: "0 3 * * * UTC", Period: 24 * time.Hour, Keep: 7, Since: f.Now.Add(-60 * 24 * time.Hour), Next: f.Now.Add(5 * time.Hour),
			Targets: []string{"shop-nas"}, Recipients: []string{"age1owner"},
			Kept: []backup.Brief{{ID: f.Hosts[i].Name + "-1", Taken: f.Now.Add(-ago), Good: true, Revision: 4711, Size: 12 << 20, Copies: []backup.Copy{{Target: "shop-nas", Verified: f.Now.Add(-ago)}}}},
		}
		change(&s)
		f.Hosts[i].Backup = Know(backup.Host{Name: f.Hosts[i].Name, Summary: s}, saidTest, f.Now)
	}
	f.BackupProof = Know(backup.Proof{ID: "cp-1-0", At: f.Now.Add(-time.Hour), By: "admin", Recipients: []string{"age1owner"}}, saidTest, f.Now)
	return f
}

func TestBackupsHaveTheirSectionAndTheirFindings(t *testing.T) {
	well := Describe(backedUp(t, time.Hour, func(*backup.Summary) {}))
	if well.Backup == nil || well.Backup.Host == "" || slices.ContainsFunc(well.Findings, func(f finding.Finding) bool { return strings.HasPrefix(string(f.ID), "backup-") }) {
		t.Errorf("%+v, %+v", well.Backup, well.Findings)
	}
	golden.Check(t, "backups-well.txt", []byte(Text(well, page.Style{})))
	golden.Check(t, "backups-old.txt", []byte(Text(Describe(backedUp(t, 90*time.Hour, func(s *backup.Summary) { s.Failed = &backup.Failure{At: now, Why: "no room", Times: 4} })), page.Style{})))
	never := backedUp(t, time.Hour, func(*backup.Summary) {})
	never.BackupProof.Value = backup.Proof{}
	for id, f := range map[finding.ID]Facts{
		BackupNone:        backedUp(t, time.Hour, func(s *backup.Summary) { s.Kept = nil }),
		BackupOld:         backedUp(t, 49*time.Hour, func(s *backup.Summary) { s.Targets = nil }),
		BackupFailed:      backedUp(t, time.Hour, func(s *backup.Summary) { s.Failed = &backup.Failure{At: now, Why: "no room", Times: 3} }),
		BackupRefused:     backedUp(t, time.Hour, func(s *backup.Summary) { s.Refused = []string{"spec.etcd.pvcName: x"} }),
		BackupNeverProven: never,
		BackupNotSent: backedUp(t, time.Hour, func(s *backup.Summary) {
			s.Kept[0].Copies[0] = backup.Copy{Target: "shop-nas", Failed: "no route"}
			old := s.Kept[0]
			old.ID, old.Taken = "old", old.Taken.Add(-72*time.Hour)
			s.Kept = append(s.Kept, old)
		}),
	} {
		found := describer{Facts: f}.ofBackups()
		if len(found) == 0 || found[0].ID != id || found[0].Severity != finding.Warning || len(found[0].Commands) == 0 || !strings.HasSuffix(found[0].Meaning, ".") || strings.HasSuffix(found[0].Problem, ".") || found[0].Page != pageBackups {
			t.Errorf("%s: %+v", id, found)
		}
	}
	held := backedUp(t, time.Hour, func(s *backup.Summary) { s.Refused, s.Held = []string{"newer: unknown field"}, true })
	if found := (describer{Facts: held}).ofBackups(); len(found) != 1 || !strings.Contains(found[0].Meaning, "removes none") {
		t.Errorf("a host that knows no wish without mistakes: %+v", found)
	}
	one := backedUp(t, time.Hour, func(*backup.Summary) {})
	one.Hosts[0].Backup.Value.Kept[0].Taken = one.Now.Add(-50 * time.Hour)
	if found := (describer{Facts: one}).ofBackups(); len(found) != 1 || found[0].ID != BackupHostOld || found[0].Severity != finding.Note {
		t.Errorf("%+v", found)
	}
}

func TestASiteWhoseHostsTellNothingOfBackupsHasNoSection(t *testing.T) {
	f := backedUp(t, time.Hour, func(*backup.Summary) {})
	for i := range f.Hosts {
		f.Hosts[i].Backup.Value = backup.HostOf(f.Hosts[i].Name, nil)
	}
	if v := Describe(f); v.Backup != nil || len((describer{Facts: f}).ofBackups()) > 0 {
		t.Errorf("%+v", v.Backup)
	}
}
