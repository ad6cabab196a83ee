package arch

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fuzzPage is the page that lists the fuzz targets.
const fuzzPage = "../../../docs/fuzz.md"

var (
	fuzzRow    = regexp.MustCompile("^\\| (.+) \\| (`Fuzz.+`) \\| `([a-z/0-9]+)` \\|$")
	fuzzTarget = regexp.MustCompile("`(Fuzz[A-Za-z0-9]+)`")
)

// TestFuzzTargetsAreThoseOfThePage compares the targets of the page and of the
// tree: whoever adds a parser looks on the page for its target.
func TestFuzzTargetsAreThoseOfThePage(t *testing.T) {
	text, err := os.ReadFile(fuzzPage)
	if err != nil {
		t.Fatal(err)
	}
	var page, tree []string
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		row := fuzzRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		if rows[row[1]] {
			t.Errorf("%s has two rows for %q: one row lists all targets of a source, or each row says how it differs", fuzzPage, row[1])
		}
		rows[row[1]] = true
		for _, target := range fuzzTarget.FindAllStringSubmatch(row[2], -1) {
			page = append(page, row[3]+":"+target[1])
		}
	}
	for _, p := range allProofs() {
		if strings.HasPrefix(p.name, "Fuzz") {
			tree = append(tree, p.dir+":"+p.name)
		}
	}
	slices.Sort(page)
	slices.Sort(tree)
	for _, target := range tree {
		if !slices.Contains(page, target) {
			t.Errorf("%s does not list %s", fuzzPage, target)
		}
	}
	for i, target := range page {
		if !slices.Contains(tree, target) || i > 0 && page[i-1] == target {
			t.Errorf("%s lists %s, which is not there, or twice", fuzzPage, target)
		}
	}
	if len(tree) < 40 {
		t.Errorf("only %d fuzz targets were found", len(tree))
	}
}
