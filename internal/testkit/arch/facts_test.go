package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// elsewhere matches names of folders and notes that no reader has. Texts
	// used to name them.
	elsewhere = regexp.MustCompile(`\.\./shar` + `ed\b|\bresear` + `ch/|\breview-(house|field|core|lab|network|security|two-node|installer)\b|\bDESI` + `GN\b|[( ]/wor` + `k/|\bresearch no` + `tes\b`)
	// cited matches a fact with its page, its heading and the numbers of its
	// rows.
	cited   = regexp.MustCompile(`docs/(facts/[a-z-]+\.md|attacks\.md)(#[a-z0-9-]+)?((?:(?:,| and) (?:L-)?[A-Z]?\d+\b)*)`)
	numbers = regexp.MustCompile(`\b(?:L-)?[A-Z]?\d+\b`)
	// onlyNumbers matches the text of a link that names rows: "B1, B2 to B4".
	onlyNumbers = regexp.MustCompile("^(?:(?:cases? |rule )?`?(?:L-)?[A-Z]?\\d+`?(?:, | and | to )?)+$")
	// numbered matches a test that is named after a row.
	numbered = regexp.MustCompile(`^Test(HardCase|B|H)0*(\d+)`)
	// inComment matches the number of a foreign fault in a comment.
	inComment = regexp.MustCompile(`\b[BH]\d{1,2}\b`)
)

// pagesOfTests holds, for each page, the folders whose tests are named after
// its numbers. The table of docs/facts/README.md says the same.
var pagesOfTests = map[string][]string{
	"docs/facts/ingress.md": {"internal/decide/ingress", "internal/operator/ingress", "internal/render/router", "test/ingress"},
	"docs/facts/two-node.md": {
		"internal/decide/clusterhealth", "internal/decide/fencing", "internal/decide/pacemakerstatus", "internal/decide/redact",
		"internal/agent/pacemakerstatus", "internal/operator/health", "test/corpus/etcd",
	},
}

// ownExamples lists files that cite nothing real, on purpose.
var ownExamples = []string{"internal/testkit/arch/facts_test.go", "internal/testkit/arch/links_test.go"}

const otherTests = "docs/facts/network.md"

// hasRow reports whether a part of a page has a row whose first cell is number.
func hasRow(part, number string) bool {
	return strings.Contains(part, "\n| "+number+" |") || strings.Contains(part, "\n| "+number+", ") || strings.HasPrefix(part, "| "+number+" |")
}

// missingFacts lists the parts of a citation that do not exist.
func missingFacts(texts map[string]string, page, part string, rows []string) []string {
	text, ok := texts[page]
	if !ok {
		return []string{"there is no " + page}
	}
	section, ok := sections(text)[part]
	if !ok {
		return []string{page + " has no heading #" + part}
	}
	var out []string
	for _, row := range rows {
		if !hasRow(section, row) {
			out = append(out, page+"#"+part+" has no row "+row)
		}
	}
	return out
}

// TestFactsLieInTheRepository checks that no text names a folder that a reader
// does not have, and that each citation leads to a fact.
func TestFactsLieInTheRepository(t *testing.T) {
	texts := repository(t)
	found := 0
	for file, text := range texts {
		if slices.Contains(ownExamples, file) {
			continue
		}
		if away := elsewhere.FindString(text); away != "" && !strings.HasSuffix(file, "go.mod") {
			t.Errorf("%s names %q, which no reader has: put the fact into docs/facts", file, strings.TrimSpace(away))
		}
		for _, m := range cited.FindAllStringSubmatch(text, -1) {
			found++
			for _, why := range missingFacts(texts, "docs/"+m[1], strings.TrimPrefix(m[2], "#"), numbers.FindAllString(m[3], -1)) {
				t.Errorf("%s cites %q: %s", file, m[0], why)
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d citations were found", found)
	}
}

// TestFactsThatALinkNamesAreThere checks links whose text is numbers of rows.
func TestFactsThatALinkNamesAreThere(t *testing.T) {
	texts := repository(t)
	for file, text := range texts {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			page, part, _ := strings.Cut(m[2], "#")
			page = path.Join(path.Dir(file), page)
			if onlyNumbers.MatchString(m[1]) && (page == "docs/attacks.md" || strings.HasPrefix(page, "docs/facts/")) {
				for _, why := range missingFacts(texts, page, part, numbers.FindAllString(m[1], -1)) {
					t.Errorf("%s, %s: %s", file, m[0], why)
				}
			}
		}
	}
}

// pageOfTest returns the page that a test's number belongs to.
func pageOfTest(dir string) string {
	for page, folders := range pagesOfTests {
		if slices.ContainsFunc(folders, func(folder string) bool { return within(dir, folder) }) {
			return page
		}
	}
	return otherTests
}

// TestFactsThatTestsAreNamedAfterAreThere finds the row of each number in the
// name of a test.
func TestFactsThatTestsAreNamedAfterAreThere(t *testing.T) {
	texts := repository(t)
	tests := 0
	for _, p := range allProofs() {
		m := numbered.FindStringSubmatch(p.name)
		if m == nil {
			continue
		}
		tests++
		row := m[2]
		if m[1] != "HardCase" {
			row = m[1] + m[2]
		}
		if page := pageOfTest(p.dir); !hasRow(texts[page], row) {
			t.Errorf("%s of %s is named after %s, which has no row in %s", p.name, p.dir, row, page)
		}
	}
	if tests < 100 {
		t.Errorf("only %d tests with a number were found", tests)
	}
}

// TestFactsThatCommentsNumberAreThere looks up each B and H number of a
// comment.
func TestFactsThatCommentsNumberAreThere(t *testing.T) {
	texts := repository(t)
	var known strings.Builder
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasPrefix(file, "docs/facts/") {
			known.WriteString("\n" + texts[file])
		}
	}
	for file, text := range texts {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler reports it
		}
		for _, number := range numbersOf(parsed) {
			if !hasRow(known.String(), number) {
				t.Errorf("%s names %s, which is in no table of docs/facts", file, number)
			}
		}
	}
}

// numbersOf returns the numbers of faults in the comments of a file.
func numbersOf(file *ast.File) []string {
	var out []string
	for _, group := range file.Comments {
		out = append(out, inComment.FindAllString(group.Text(), -1)...)
	}
	return out
}

// TestFactsHaveOneHomeForTheNumbersOfTests compares the table of folders with
// the page that people read.
func TestFactsHaveOneHomeForTheNumbersOfTests(t *testing.T) {
	readme := repository(t)["docs/facts/README.md"]
	for page, folders := range pagesOfTests {
		for line := range strings.Lines(readme) {
			if strings.HasPrefix(line, "| `") && strings.Contains(line, path.Base(page)) {
				for _, folder := range folders {
					if !strings.Contains(line, "`"+strings.TrimPrefix(folder, "internal/")+"`") {
						t.Errorf("docs/facts/README.md does not say that %s is of %s", folder, page)
					}
				}
			}
		}
	}
}

func TestACitationOfNothingIsFound(t *testing.T) {
	texts := map[string]string{"docs/facts/a.md": "# A\n\n## Part\n\n| B1 | one |\n| 12 | two |\n"}
	for _, c := range []struct {
		page, part string
		rows       []string
		good       bool
	}{
		{"docs/facts/a.md", "part", []string{"B1", "12"}, true},
		{"docs/facts/a.md", "", nil, true},
		{"docs/facts/a.md", "part", []string{"B2"}, false},
		{"docs/facts/a.md", "a", []string{"B1"}, false},
		{"docs/facts/a.md", "other", nil, false},
		{"docs/facts/b.md", "", nil, false},
	} {
		if got := missingFacts(texts, c.page, c.part, c.rows); (len(got) == 0) != c.good {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for text, bad := range map[string]bool{
		"see ../shar" + "ed/x": true, "resear" + "ch/a.md": true, "review-" + "lab L1": true, "a review of the lab": false, "docs/facts/a.md": false, "/workdir": false,
	} {
		if elsewhere.MatchString(text) != bad {
			t.Errorf("%s: not %v", text, bad)
		}
	}
}
