package standing

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
)

// spaced adds what the hosts of a healthy pair say about the space of etcd.
func spaced(t *testing.T, change func(s *etcdspace.Summary)) Facts {
	t.Helper()
	f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	for i := range f.Hosts {
		s := etcdspace.Summary{
			Size: 200 << 20, InUse: 180 << 20, Quota: 2 << 30, Voters: 2,
			Verdict: etcdspace.Verdict{Rule: "rest", Why: "no member has enough to gain"},
		}
		if f.Hosts[i].Name == "cp-1" {
			change(&s)
		}
		f.Hosts[i].Space = Know(etcdspace.Host{Name: f.Hosts[i].Name, Summary: s}, saidTest, f.Now)
	}
	return f
}

func short(s *etcdspace.Summary)  { s.Size, s.InUse = 1700<<20, 1690<<20 }
func nearly(s *etcdspace.Summary) { s.Size, s.InUse = 2000<<20, 1990<<20 }
func due(s *etcdspace.Summary) {
	s.Verdict = etcdspace.Verdict{Step: etcdspace.Defragment, Host: "cp-2", Rule: "follower"}
}
func alarm(s *etcdspace.Summary) { s.NoSpace = []string{"cp-2"} }

func both(a, b func(*etcdspace.Summary)) func(*etcdspace.Summary) {
	return func(s *etcdspace.Summary) { a(s); b(s) }
}

func TestTheSpaceOfEtcdHasItsFindings(t *testing.T) {
	if found := (describer{Facts: spaced(t, func(*etcdspace.Summary) {})}).ofSpace(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	for name, c := range map[string]struct {
		change   func(s *etcdspace.Summary)
		id       finding.ID
		severity finding.Severity
		says     string
		command  string
	}{
		"short":                    {short, EtcdShort, finding.Warning, "The agents find nothing to do: no member has enough to gain.", "grep '^apiserver_resource_objects{' | sort -t' ' -k2 -g"},
		"nearly full":              {nearly, EtcdShort, finding.Critical, "Find out what fills it.", "grep '^apiserver_resource_objects{' | sort -t' ' -k2 -g"},
		"short, and it is mended":  {both(nearly, due), EtcdShort, finding.Note, "Cp-2 is next to be defragmented, which gives space back.", "holdfast etcd status"},
		"full":                     {both(nearly, alarm), EtcdFull, finding.Critical, "The agents wait: no member has enough to gain. Delete what nobody needs; it passes.", "sudo holdfast etcd status"},
		"full, and it is mended":   {both(nearly, both(alarm, due)), EtcdFull, finding.Critical, "by themselves, which takes some ten minutes: cp-2 is next to be defragmented.", "sudo holdfast etcd status"},
		"it gave up":               {func(s *etcdspace.Summary) { s.GivenUp, s.Failed, s.Error = true, 3, "no room" }, EtcdDefragmentFails, finding.Warning, "ask for it", "holdfast etcd defragment --host cp-1"},
		"the only member has much": {func(s *etcdspace.Summary) { s.Verdict.Rule = "alone" }, EtcdWaste, finding.Note, "you choose the time", "holdfast etcd defragment"},
	} {
		found := describer{Facts: spaced(t, c.change)}.ofSpace()
		if len(found) != 1 || found[0].ID != c.id || found[0].Severity != c.severity || !strings.Contains(found[0].Meaning, c.says) || !strings.Contains(found[0].Commands[0].Line, c.command) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	listed := Describe(spaced(t, short)).Findings
	if len(listed) == 0 || listed[0].Page != "docs/runbook/etcd-space.md" {
		t.Errorf("%+v", listed)
	}
}

// TestAnAPIThatAnswersWhileEtcdIsFullTakesNoWrites: it reads, which proves nothing of writes.
func TestAnAPIThatAnswersWhileEtcdIsFullTakesNoWrites(t *testing.T) {
	for _, c := range []struct {
		change func(*etcdspace.Summary)
		want   explain.Status
	}{{both(alarm, due), explain.Waiting}, {alarm, explain.NeedsHuman}} {
		v := Describe(spaced(t, c.change))
		if v.Status != c.want || !strings.HasPrefix(v.Summary, "The cluster takes no writes") {
			t.Errorf("%s: %s", v.Status, v.Summary)
		}
	}
}

func TestASiteWhoseHostsSayNothingOfTheSpaceOfEtcdHasNoFinding(t *testing.T) {
	f := spaced(t, alarm)
	for i := range f.Hosts {
		f.Hosts[i].Space = Know(etcdspace.HostOf(f.Hosts[i].Name, nil), saidTest, f.Now)
	}
	if found := (describer{Facts: f}).ofSpace(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
