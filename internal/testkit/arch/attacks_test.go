package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/access"
)

const (
	attacksPage = "../../../docs/attacks.md"
	headAttacks = "| finding | what is tried | what refuses it | shown by |"
	// findings is the number of findings of the security review.
	findings = 23
)

// attackRow is the row of one attack on the page.
type attackRow struct{ finding, refusal, proof string }

// mistakes returns what is wrong with a row: a missing test, or neither a test
// nor a statement that nothing refuses the attack.
func (r attackRow) mistakes(e evidence) []string {
	found, out := e.marksOf(r.proof)
	if none := strings.HasPrefix(r.refusal, "not refused"); none == (len(found) > 0) {
		out = append(out, "it has to name tests, or to begin with what is not refused")
	}
	return out
}

// TestAttacksAreAllOnThePage checks that the page has every finding, because
// the next reviewer begins there.
func TestAttacksAreAllOnThePage(t *testing.T) {
	e := theEvidence(t)
	told := map[string]bool{}
	for _, line := range tables(strings.Split(read(t, attacksPage), "\n"), headAttacks) {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			t.Errorf("not a row of four cells: %s", line)
			continue
		}
		told[cells[0]] = true
		for _, m := range (attackRow{cells[0], cells[2], cells[3]}).mistakes(e) {
			t.Errorf("%s, %s: %s", cells[0], cells[1], m)
		}
	}
	for n := range findings {
		if f := fmt.Sprintf("F%d", n+1); !told[f] {
			t.Errorf("%s has no row", f)
		}
	}
	for _, a := range access.Attempts(access.Target{ControlPlane: "cp-1", Own: "worker-1"}) {
		if !told[a.Finding] {
			t.Errorf("%s is of %q, which has no row", a.Name, a.Finding)
		}
	}
}

func TestAnAttackThatNothingRefusesSaysSo(t *testing.T) {
	e := evidence{tests: map[string][]proof{"TestOne": {{name: "TestOne", mark: markUnit}}}}
	for _, c := range []struct {
		row attackRow
		ok  bool
	}{
		{attackRow{"F1", "a guard", "`TestOne`"}, true},
		{attackRow{"F1", "not refused: no key", "–"}, true},
		{attackRow{"F1", "a guard", "–"}, false},
		{attackRow{"F1", "a guard", "`TestNone`"}, false},
		{attackRow{"F1", "not refused: no key", "`TestOne`"}, false},
	} {
		if got := c.row.mistakes(e); (len(got) == 0) != c.ok {
			t.Errorf("%+v: %v", c.row, slices.Compact(got))
		}
	}
}
