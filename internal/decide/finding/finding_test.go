package finding

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// order has the severities as people read them, the mildest first.
var order = []Severity{"ok", "note", "unknown", "warning", "critical"}

func TestWhatCouldNotBeCheckedIsWorseThanANoteAndMilderThanAWarning(t *testing.T) {
	if got := Severities(); !slices.Equal(got, order) {
		t.Errorf("%v, want %v", got, order)
	}
	for i, mild := range order {
		for j, severe := range order {
			if got := Compare(mild, severe); (got > 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s beside %s: %d", mild, severe, got)
			}
			if got := Worst(mild, severe); got != order[max(i, j)] {
				t.Errorf("the worst of %s and %s is %s", mild, severe, got)
			}
		}
	}
}

func TestTheMostSevereFindingIsSortedFirst(t *testing.T) {
	list := []Severity{Note, Critical, OK, Warning, Unknown}
	slices.SortFunc(list, Compare)
	if want := []Severity{Critical, Warning, Unknown, Note, OK}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
}

func TestNothingFoundIsWell(t *testing.T) {
	if got := Worst(); got != OK {
		t.Errorf("%s", got)
	}
}

func TestEachSeverityHasItsColour(t *testing.T) {
	for severity, want := range map[Severity]page.Colour{
		OK: page.Green, Note: page.Cyan, Unknown: page.Yellow, Warning: page.Yellow, Critical: page.Red, "": page.None,
	} {
		if got := severity.Colour(); got != want {
			t.Errorf("%q: %q, want %q", severity, got, want)
		}
	}
}

func TestACommandSaysWhereToTypeIt(t *testing.T) {
	if got := Anywhere("holdfast status"); !slices.Equal(got, []Command{{Line: "holdfast status"}}) {
		t.Errorf("%+v", got)
	}
	if got := On("cp-1", "pcs status"); !slices.Equal(got, []Command{{Line: "pcs status", Host: "cp-1"}}) {
		t.Errorf("%+v", got)
	}
}

func TestThePageOfFindingsExplainsEachSeverity(t *testing.T) {
	text, err := os.ReadFile("../../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Severities() {
		if n := strings.Count(string(text), "\n| `"+string(s)+"` | "); n != 1 {
			t.Errorf("%s has %d rows", s, n)
		}
	}
}
