package standing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// planned is a healthy pair whose hosts say this of plans.
func planned(t *testing.T, lock Plan, announced []Plan, said map[string]PlanSaid) Facts {
	t.Helper()
	f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	f.Lock, f.Announced = Know(lock, saidTest, now), Know(announced, saidTest, now)
	for i, h := range f.Hosts {
		if s, ok := said[h.Name]; ok {
			f.Hosts[i].Plans = Know([]PlanSaid{s}, saidTest, now)
		}
	}
	return f
}

func TestAPlanThatIsUnderWayIsToldWithWhatItsHostsSay(t *testing.T) {
	family := Plan{ID: "f1", Words: "the plan f1 of ada gives the site a second address family", Since: now.Add(-time.Minute), Command: "follow"}
	third := Plan{ID: "p1", Words: "the plan p1 of ada brings cp-3 as the third control plane", Since: now.Add(-time.Hour), Command: "sudo holdfast topology apply", On: "cp-1"}
	old := third
	old.Since = now.Add(-25 * time.Hour)
	over := PlanSaid{Plan: "f1", Words: "both", Over: true}
	for what, c := range map[string]struct {
		facts    Facts
		severity finding.Severity
		problem  string
		commands []finding.Command
	}{
		"none":                         {planned(t, Plan{}, nil, nil), "", "", nil},
		"nobody knows":                 {onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))), "", "", nil},
		"the lock, for an hour":        {planned(t, third, nil, nil), finding.Note, third.Words + ", under way for 1h00m", []finding.Command{{Line: third.Command, Host: "cp-1"}}},
		"the lock, for over a day":     {planned(t, old, nil, nil), finding.Warning, third.Words + ", under way for 25h00m", []finding.Command{{Line: third.Command, Host: "cp-1"}}},
		"the lock is of the announced": {planned(t, Plan{ID: "f1", Words: "as the lock says"}, []Plan{family}, nil), finding.Note, family.Words + ", under way for 1m00s", []finding.Command{{Line: "follow"}}},
		"a host waits, the other is done": {
			planned(t, Plan{}, []Plan{family}, map[string]PlanSaid{"cp-1": over, "cp-2": {Plan: "f1", Words: "waits for kubelet", Way: "systemctl status kubelet"}}), finding.Note,
			family.Words + ", under way for 1m00s; cp-2: waits for kubelet",
			[]finding.Command{{Line: "systemctl status kubelet", Host: "cp-2"}, {Line: "follow"}},
		},
		"an act fails": {
			planned(t, Plan{}, []Plan{family}, map[string]PlanSaid{"cp-2": {Plan: "f1", Words: "boots", Problem: "the disk\nis full", Way: "follow"}}), finding.Warning,
			family.Words + ", under way for 1m00s; cp-2: the disk; is full",
			[]finding.Command{{Line: "follow"}},
		},
		"a host says something of another plan": {planned(t, Plan{}, []Plan{family}, map[string]PlanSaid{"cp-1": over, "cp-2": {Plan: "f0", Over: true}}), finding.Note, family.Words + ", under way for 1m00s", []finding.Command{{Line: "follow"}}},
		"all are done":                          {planned(t, Plan{}, []Plan{family}, map[string]PlanSaid{"cp-1": over, "cp-2": over}), "", "", nil},
	} {
		found := describer{Facts: c.facts}.ofPlans()
		f, one := onlyOne(t, what, found, c.severity != "")
		if !one {
			continue
		}
		if f.ID != PlanUnderWay || f.Severity != c.severity || f.Problem != c.problem || !slices.Equal(f.Commands, c.commands) {
			t.Errorf("%s: %+v", what, f)
		}
		if locked := c.facts.Lock.Value.ID != ""; strings.Contains(f.Meaning, "Upgrades and other changes of the control planes wait") != locked {
			t.Errorf("%s: it means %q", what, f.Meaning)
		}
		if text := Text(Describe(c.facts), page.Style{}); !strings.Contains(text, "under way for") {
			t.Errorf("%s: the overview: %s", what, text)
		}
	}
}

// onlyOne returns the one finding that is wanted. It fails, and returns none, if there is another number of them.
func onlyOne(t *testing.T, what string, found []finding.Finding, wanted bool) (f finding.Finding, one bool) {
	t.Helper()
	switch {
	case !wanted && len(found) == 0:
		return f, false
	case !wanted || len(found) != 1:
		t.Errorf("%s: %+v", what, found)
		return f, false
	}
	return found[0], true
}
