package witness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const approved = `# the power of a host is cut

condition node lost: Online
  True Online
  False Offline
  # it may be back before anybody looks
  ? True Online
  ? False Offline
  True Online
# told by a pod that may be on the lost host
? event PacemakerNodeOffline lost
  # it depends on who looked first
  by one
  | by the other
report 1
  title: over
`

func TestOnlyWhatIsMarkedMayDiffer(t *testing.T) {
	a, err := ReadApproved(approved)
	if err != nil {
		t.Fatal(err)
	}
	online := func(steps ...string) Row { return Row{"condition node lost: Online", steps} }
	event := func(steps ...string) Row { return Row{"event PacemakerNodeOffline lost", steps} }
	report := Row{"report 1", []string{"title: over"}}
	for what, c := range map[string]struct {
		rows []Row
		good bool
	}{
		"all of it":                  {[]Row{online("True Online", "False Offline", "True Online", "False Offline", "True Online"), event("by one"), report}, true},
		"without what may be absent": {[]Row{online("True Online", "False Offline", "True Online"), report}, true},
		"the other words":            {[]Row{online("True Online", "False Offline", "True Online"), event("by the other"), report}, true},
		"words that nobody approved": {[]Row{online("True Online", "False Offline", "True Online"), event("by a third"), report}, false},
		"an event twice":             {[]Row{online("True Online", "False Offline", "True Online"), event("by one", "by one"), report}, false},
		"a step is missing":          {[]Row{online("True Online", "True Online"), report}, false},
		"a step too many":            {[]Row{online("True Online", "False Offline", "True Online", "False Offline"), report}, false},
		"a subject is missing":       {[]Row{online("True Online", "False Offline", "True Online")}, false},
		"a subject too many":         {[]Row{online("True Online", "False Offline", "True Online"), {"alert A", []string{"seen"}}, report}, false},
	} {
		if got := a.With(c.rows); (got == approved) != c.good {
			t.Errorf("%s: good %v, want %v:\n%s", what, got == approved, c.good, got)
		}
	}
}

func TestWhatIsApprovedAnewKeepsTheMarksThatStillHold(t *testing.T) {
	a, err := ReadApproved(approved)
	if err != nil {
		t.Fatal(err)
	}
	got := a.With([]Row{{"alert A", []string{"seen"}}, {"condition node lost: Online", []string{"True Online", "False Offline", "True Online"}}})
	want := strings.Replace(strings.TrimSuffix(approved, "report 1\n  title: over\n"), "condition node", "alert A\n  seen\ncondition node", 1)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const shared = `condition node lost: Ready
  True Ready
  # it joins in two steps
  ? False Pending
  True Ready
# it has to last
? alert A
  # as often as it takes
  * seen
`

func TestWhatGoesAsAlwaysIsWrittenOnce(t *testing.T) {
	const text = "alert A\n  as always\ncondition node lost: Ready\n  as always\n"
	a, err := ReadScenario(text, shared)
	if err != nil {
		t.Fatal(err)
	}
	rows := func(alerts int, ready ...string) []Row {
		return []Row{{"alert A", slices.Repeat([]string{"seen"}, alerts)}, {"condition node lost: Ready", ready}}
	}
	for what, c := range map[string]struct {
		rows []Row
		good bool
	}{
		"all of it":                  {rows(1, "True Ready", "False Pending", "True Ready"), true},
		"three times":                {rows(3, "True Ready", "True Ready"), true},
		"not even once":              {rows(0, "True Ready", "True Ready"), false},
		"not as always":              {rows(1, "True Ready", "False Lost", "True Ready"), false},
		"without what may be absent": {rows(1, "True Ready", "True Ready")[1:], true},
		"a subject is missing":       {rows(1, "True Ready", "True Ready")[:1], false},
	} {
		if got := a.With(c.rows); (got == text) != c.good {
			t.Errorf("%s: good %v, want %v:\n%s", what, got == text, c.good, got)
		}
	}
	empty, err := ReadScenario("", shared)
	if err != nil {
		t.Fatal(err)
	}
	if got := empty.With(rows(2, "True Ready", "True Ready")); got != text {
		t.Errorf("what goes as always is written so where it is approved anew:\n%s", got)
	}
	if _, err := ReadScenario("alert B\n  as always\n", shared); err == nil {
		t.Error("a subject that the shared text does not have")
	}
}

func TestAMarkNeedsAReasonInWords(t *testing.T) {
	for _, text := range []string{
		"condition a\n  x\n  ? y\n", "condition a\n  * x\n", "condition a\n  x\n  | y\n", "? condition a\n  x\n", "  x\n", "condition a\n  # why\n  | y\n",
		"condition a\n  # why\n  ? x\ncondition b\n  ? x\n",
	} {
		if _, err := ReadApproved(text); err == nil {
			t.Errorf("no complaint about\n%s", text)
		}
	}
}

func TestEveryApprovedTextIsReadAndSaysWhereItMayDiffer(t *testing.T) {
	all, err := os.ReadFile("../testdata/always.txt")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../testdata/seen/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ReadScenario(string(text), string(all))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got := a.With(least(a)); got != string(text) {
			t.Errorf("%s is not written as it would be approved:\n%s", path, got)
		}
	}
}

// least returns the shortest play that an approved text allows.
func least(a Approved) []Row {
	var rows []Row
	for _, s := range a.Sections {
		row := Row{Subject: s.subject}
		for _, step := range s.steps {
			if !step.optional {
				row.Steps = append(row.Steps, step.texts[0])
			}
		}
		if !s.optional {
			rows = append(rows, row)
		}
	}
	return rows
}
