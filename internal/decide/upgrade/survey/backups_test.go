package survey_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// backsUp is a control plane that runs the first release and tells of its backups.
func backsUp(t *testing.T, name string, change func(*backup.Summary)) corev1.Node {
	t.Helper()
	n := node(t, name, 0, nil)
	s := backup.Summary{}
	change(&s)
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations[backup.Annotation] = text
	return n
}

// took is a good backup of a host with a release, of some time ago.
func took(ago time.Duration, release string) backup.Brief {
	return backup.Brief{ID: "b" + release, Taken: noon.Add(-ago), Good: true, Release: release}
}

// TestABackupCountsForAnUpgradeIfItsHostRanTheOldRelease: the newest good one of any control
// plane. One of another release is of the middle of an earlier upgrade, or that is not known.
func TestABackupCountsForAnUpgradeIfItsHostRanTheOldRelease(t *testing.T) {
	kept := func(list ...backup.Brief) func(*backup.Summary) {
		return func(s *backup.Summary) { s.Kept = list }
	}
	bad := took(0, "sha256:1")
	bad.Good = false
	worker := backsUp(t, "w-1", kept(took(0, "sha256:1")))
	worker.Labels = map[string]string{state.LabelWorker: ""}
	for name, c := range map[string]struct {
		nodes          []corev1.Node
		known          bool
		newest, before time.Time
	}{
		"nobody tells":         {nodes: []corev1.Node{node(t, "cp-1", 0, nil)}},
		"a worker tells":       {nodes: []corev1.Node{node(t, "cp-1", 0, nil), worker}},
		"none":                 {nodes: []corev1.Node{backsUp(t, "cp-1", kept())}, known: true},
		"a bad one":            {nodes: []corev1.Node{backsUp(t, "cp-1", kept(bad))}, known: true},
		"of another release":   {nodes: []corev1.Node{backsUp(t, "cp-1", kept(took(time.Hour, "sha256:2")))}, known: true, newest: noon.Add(-time.Hour)},
		"of an unknown one":    {nodes: []corev1.Node{backsUp(t, "cp-1", kept(took(time.Hour, "")))}, known: true, newest: noon.Add(-time.Hour)},
		"the newest of two":    {nodes: []corev1.Node{backsUp(t, "cp-1", kept(bad, took(time.Hour, "sha256:1"))), backsUp(t, "cp-2", kept(took(2*time.Hour, "sha256:1"), took(time.Minute, "sha256:2"))), node(t, "cp-3", 0, nil)}, known: true, newest: noon.Add(-time.Minute), before: noon.Add(-time.Hour)},
		"a clock was ahead":    {nodes: []corev1.Node{backsUp(t, "cp-1", kept(took(-48*time.Hour, "sha256:1"), took(time.Hour, "sha256:1")))}, known: true, newest: noon.Add(-time.Hour), before: noon.Add(-time.Hour)},
		"a worker's is nobody": {nodes: []corev1.Node{backsUp(t, "cp-1", kept(took(time.Hour, "sha256:1"))), worker}, known: true, newest: noon.Add(-time.Hour), before: noon.Add(-time.Hour)},
	} {
		got := survey.Of(survey.Seen{Now: noon, Nodes: c.nodes}).Facts.Backups
		if got.Known != c.known || !got.Value.Newest.Equal(c.newest) || !got.Value.Before.Equal(c.before) || got.Value.Wanted {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

const (
	before = "2026-11-24T11:50:00Z before-upgrade"
	commit = "2026-11-24T11:50:00Z before-commit"
)

// TestABackupIsAskedForOnceAndWhatBecameOfItIsSaid: in each state of the wish, at the beginning
// of an upgrade and before its commit.
func TestABackupIsAskedForOnceAndWhatBecameOfItIsSaid(t *testing.T) {
	asked := func(s *backup.Summary) { s.Asked = before }
	for name, c := range map[string]struct {
		record cluster.Record
		soaks  bool
		change func(*backup.Summary)
		nodes  func([]corev1.Node) []corev1.Node
		// ask is the wish that would be made, and says what the gates hear.
		ask    string
		says   string
		failed bool
	}{
		"nobody was asked":              {ask: "cp-1 before-upgrade"},
		"it goes back":                  {record: cluster.Record{Returning: true}},
		"the way back is closed":        {record: cluster.Record{NoWayBack: true}},
		"it soaks":                      {soaks: true, ask: "cp-1 before-commit"},
		"nobody can take one":           {nodes: func(n []corev1.Node) []corev1.Node { return n[1:] }, says: "no control plane can take one: cp-2: its agent has reported nothing about backups"},
		"it has not begun":              {record: wish(before), says: "has not begun yet"},
		"it tends":                      {record: wish(before), change: func(s *backup.Summary) { s.Doing = &backup.Doing{Reason: backup.Tend} }, says: "has not begun yet"},
		"it takes one":                  {record: wish(before), change: func(s *backup.Summary) { s.Doing = &backup.Doing{Phase: "reads"} }, says: "takes one"},
		"it waits":                      {record: wish(before), change: func(s *backup.Summary) { s.Waits = "etcd takes no writes here" }, says: "waits: etcd takes no writes here"},
		"it failed":                     {record: wish(before), change: func(s *backup.Summary) { asked(s); s.Answer.Failed = "pages: x" }, says: "made no good one: pages: x", failed: true},
		"a person's later one failed":   {record: wish(before), change: func(s *backup.Summary) { s.Asked, s.Answer.Failed = "2026-11-24T11:55:00Z again", "y" }, says: "made no good one: y", failed: true},
		"a person's earlier one failed": {record: wish(before), change: func(s *backup.Summary) { s.Asked, s.Answer.Failed = "2026-11-24T11:45:00Z", "y" }, says: "has not begun yet"},
		"it was good, and is gone":      {record: wish(before), change: func(s *backup.Summary) { asked(s); s.Answer.ID = "b1" }, says: "took b1, which does not lie there any more", failed: true},
		"it was good, and is not any more": {record: wish(before), change: func(s *backup.Summary) {
			asked(s)
			s.Answer.ID, s.Kept = "b1", []backup.Brief{{ID: "b1", Why: "another size"}}
		}, says: "took b1, which is not good any more: another size", failed: true},
		"its host did not know its release": {record: wish(before), change: func(s *backup.Summary) {
			asked(s)
			s.Answer.ID, s.Kept = "b", []backup.Brief{took(0, "")}
		}, says: "took b, which was not taken with the release that the site runs", failed: true},
		"it was asked for a day ago":     {record: wish("2026-11-23T11:59:59Z before-upgrade"), change: func(s *backup.Summary) { s.Asked, s.Answer.Failed = "2026-11-23T11:59:59Z before-upgrade", "x" }, ask: "cp-1 before-upgrade"},
		"its host is gone":               {record: cluster.Record{Backup: cluster.BackupWish{Host: "cp-9", Text: before}}, ask: "cp-1 before-upgrade"},
		"the commit asks for its own":    {record: wish(before), soaks: true, ask: "cp-1 before-commit"},
		"the commit has asked":           {record: wish(commit), soaks: true, says: "has not begun yet"},
		"the wish of a commit before it": {record: wish(commit), ask: "cp-1 before-upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*backup.Summary) {}
			}
			nodes := []corev1.Node{backsUp(t, "cp-1", change), node(t, "cp-2", 0, nil)}
			if c.nodes != nil {
				nodes = c.nodes(nodes)
			}
			r := c.record
			r.Upgrade, r.From, r.To, r.Started = "u1", "sha256:1", "sha256:2", true
			if c.soaks {
				for i := range nodes {
					arrive(t, &nodes[i])
				}
			}
			s := survey.Of(survey.Seen{Now: noon, Record: r, Nodes: nodes})
			ask := ""
			if a := s.Site.Ask; a != (cluster.BackupWish{}) {
				ask = strings.Replace(a.Host+" "+a.Text, "2026-11-24T12:00:00Z ", "", 1)
			}
			got := s.Facts.Backups.Value
			says := strings.TrimPrefix(got.Wish.Says, "cp-1 was asked for one at 2026-11-24T11:50:00Z, and ")
			if ask != c.ask || says != c.says || got.Wish.Failed != c.failed {
				t.Errorf("it would ask %q, and says %+v", ask, got.Wish)
			}
			if wants := !c.soaks && !r.Returning && !r.NoWayBack; got.Wanted != wants {
				t.Errorf("wanted: %v", got.Wanted)
			}
		})
	}
}

func wish(text string) cluster.Record {
	return cluster.Record{Backup: cluster.BackupWish{Host: "cp-1", Text: text}}
}

// arrive lets a host run the second release.
func arrive(t *testing.T, n *corev1.Node) {
	t.Helper()
	h, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
	if err != nil {
		t.Fatal(err)
	}
	h.Facts.Release, h.Journal = state.Known("sha256:2"), parachute.Journal{Upgrade: "u1", Step: parachute.Accepted}
	h.Facts.Whole = state.Known([]string{"sha256:1", "sha256:2"})
	text, err := annotation.Encode(h)
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations[annotation.HostOf] = text
}

// TestTriesThatFailOnAllControlPlanesAreToldBeforeAnUpgrade, and a young backup makes up for
// them.
func TestTriesThatFailOnAllControlPlanesAreToldBeforeAnUpgrade(t *testing.T) {
	fails := func(s *backup.Summary) { s.Failed = &backup.Failure{Why: "the disk is full"} }
	well := func(*backup.Summary) {}
	for what, c := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"one of two fails": {[]corev1.Node{backsUp(t, "cp-1", fails), backsUp(t, "cp-2", well)}, ""},
		"both fail":        {[]corev1.Node{backsUp(t, "cp-1", fails), backsUp(t, "cp-2", fails)}, "cp-1: the disk is full; cp-2: the disk is full"},
		"one says nothing": {[]corev1.Node{backsUp(t, "cp-1", fails), node(t, "cp-2", 0, nil)}, "cp-1: the disk is full"},
	} {
		if got := survey.Of(survey.Seen{Now: noon, Nodes: c.nodes}).Facts.Backups.Value.Fails; got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}
