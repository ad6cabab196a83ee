package people

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// TestBeforeACommitAPersonIsToldThatABackupIsTakenFirst, and not where one is young enough or
// the gate is skipped.
func TestBeforeACommitAPersonIsToldThatABackupIsTakenFirst(t *testing.T) {
	const note = "note: it waits first: there is no good backup; one is taken once nothing else holds the commit\n"
	for what, c := range map[string]struct {
		backups map[string]backup.Summary
		skip    string
		told    bool
	}{
		"none":          {map[string]backup.Summary{"cp-1": {}}, "", true},
		"none, skipped": {map[string]backup.Summary{"cp-1": {}}, `[{"gate":"backup-commit","reason":"x","by":"ann","at":"2026-11-24T11:00:00Z"}]`, false},
		"a young one":   {map[string]backup.Summary{"cp-1": {Kept: []backup.Brief{{ID: "b", Taken: noon.Add(-time.Hour), Good: true, Release: r2}}}}, "", false},
		"nobody tells":  {nil, "", false},
	} {
		s := aSite()
		s.underWay(4).backups = c.backups
		s.version.Annotations[annotation.OverridesOf] = c.skip
		change, err := s.said(cluster.Step{Phase: cluster.Proving, Why: "healthy"}).read(t).Commit()
		if err != nil || strings.Contains(change.Text(), note) != c.told || !c.told && strings.Contains(change.Text(), "waits first") {
			t.Errorf("%s: %v\n%s", what, err, change.Text())
		}
	}
}

// TestABackupThatFailedIsMadeAnewByACommandThatIsShown, and not where the gate is skipped.
func TestABackupThatFailedIsMadeAnewByACommandThatIsShown(t *testing.T) {
	s := aSite()
	s.asked(madeNone, "made no good one: the disk is full")
	has := func() bool {
		return slices.ContainsFunc(s.read(t).Status().Commands(), func(c [2]string) bool { return c[0] == "holdfast backup now" })
	}
	if !has() {
		t.Error("no command takes it anew")
	}
	s.version.Annotations[annotation.OverridesOf] = `[{"gate":"backup","reason":"x","by":"ann","at":"2026-11-24T11:00:00Z"}]`
	if has() {
		t.Error("the gate is skipped")
	}
	delete(s.version.Annotations, annotation.OverridesOf)
	s.backups["cp-1"] = takesOne
	if has() {
		t.Error("it is on its way")
	}
}

// TestBeforeAStartAPersonIsToldThatABackupIsTakenFirst, and not where one is young enough or the
// gate is skipped. Tries that fail are told as what it would wait for.
func TestBeforeAStartAPersonIsToldThatABackupIsTakenFirst(t *testing.T) {
	const first = "note: before the first host: there is no good backup that was taken with Holdfast 0.8.0; one is taken once nothing else holds the upgrade\n"
	const fails = "note: it would wait now for backup: there is no good backup that was taken with Holdfast 0.8.0; the last tries failed: cp-1: the disk is full\n"
	failing := backup.Summary{Failed: &backup.Failure{Why: "the disk is full", Times: 1}}
	for what, c := range map[string]struct {
		cp1  backup.Summary
		skip bool
		want string
	}{
		"none":          {backup.Summary{}, false, first},
		"none, skipped": {backup.Summary{}, true, ""},
		"a young one":   {backup.Summary{Kept: []backup.Brief{{ID: "b", Taken: noon.Add(-time.Hour), Good: true, Release: r1}}}, false, ""},
		"tries fail":    {failing, false, fails},
	} {
		s := aSite()
		s.backups = map[string]backup.Summary{"cp-1": c.cp1}
		start := Start{Image: r2}
		if c.skip {
			start.Overrides = []annotation.Override{{Gate: gate.BackupGate, Reason: "x", By: "ann", At: noon}}
		}
		change, err := s.read(t).Start(start)
		var got []string
		for line := range strings.Lines(change.Text()) {
			if strings.Contains(line, "good backup") {
				got = append(got, line)
			}
		}
		if err != nil || strings.Join(got, "") != c.want {
			t.Errorf("%s: %v, %q", what, err, got)
		}
	}
}
