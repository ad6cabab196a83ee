package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// headLife begins the tables of the cases of a site's life.
const headLife = "| number | case | source | what Holdfast does | shown by |"

// shownCase returns how a case of a site's life is shown, by the last cell of its row:
// by tests alone, by some in part, by none, or that it cannot arise.
func shownCase(cell string) string {
	tests := slices.ContainsFunc(quoted.FindAllStringSubmatch(cell, -1), func(m []string) bool { return namedTest.MatchString(m[1]) })
	open := strings.Contains(cell, "open: ")
	switch {
	case strings.HasPrefix(cell, "none: ") && !open && !tests:
		return "cannot arise"
	case open && strings.HasPrefix(cell, "open: "):
		return "open"
	case open && tests:
		return "in part"
	case tests:
		return "shown"
	default:
		return ""
	}
}

// TestFactsOfASitesLifeAreShownOrOpen reads the pages of the hard cases: each is there
// once, its tests exist, and docs/CONFORMANCE.md has the right numbers.
func TestFactsOfASitesLifeAreShownOrOpen(t *testing.T) {
	e := theEvidence(t)
	page := read(t, conformance)
	for _, part := range []struct {
		file, heading, letter, statement string
		cases                            int
	}{
		{"docs/facts/life.md", "certificates", "L-C", "Hard cases of certificates", 42},
		{"docs/facts/life.md", "configuration-of-hosts", "L-M", "Hard cases of the configuration of hosts", 46},
		{"docs/facts/upgrades.md", "hard-cases", "U", "Hard cases of upgrades", 106},
		{"docs/facts/loss.md", "hard-cases-of-loss", "L", "Hard cases of loss", 90},
	} {
		parts := sections(repository(t)[part.file])
		count, next := map[string]int{}, 1
		for _, line := range tables(strings.Split(parts[part.heading], "\n"), headLife) {
			r, ok := rowOf(line)
			if !ok || r.statement != fmt.Sprint(part.letter, next) {
				t.Errorf("not the row of five cells for %s%d: %s", part.letter, next, line)
			}
			next++
			how := shownCase(r.annotations)
			if count[how]++; how == "" {
				t.Errorf("%s: neither a test, nor open, nor none", r.statement)
			}
			if _, mistakes := e.marksOf(r.annotations); len(mistakes) > 0 {
				t.Errorf("%s: %q", r.statement, mistakes)
			}
		}
		if next != part.cases+1 {
			t.Errorf("%s has %d cases, want %d", part.heading, next-1, part.cases)
		}
		want := fmt.Sprintf("%d are shown, %d in part, %d open, %d cannot arise", count["shown"], count["in part"], count["open"], count["cannot arise"])
		lines := strings.Split(page, "\n")
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| "+part.statement+" |") }); i < 0 || !strings.Contains(lines[i], want) {
			t.Errorf("docs/CONFORMANCE.md has no row %q with %q", part.statement, want)
		}
	}
}

func TestACaseOfALifeIsShownByWhatItsRowSays(t *testing.T) {
	for cell, want := range map[string]string{
		"`TestOne`": "shown", "`TestOne`; open: the lab": "in part", "open: all": "open", "none: it is not built": "cannot arise",
		"": "", "someday": "", "`hack/test life`": "", "none: `TestOne`": "shown",
	} {
		if got := shownCase(cell); got != want {
			t.Errorf("%q is %q, want %q", cell, got, want)
		}
	}
}
