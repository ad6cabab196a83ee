package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	decisionsPage = "docs/decisions-map.md"
	headDecisions = "| question | function | record | test |"
	headPriority  = "| constant | value | counts for |"
	decisions     = "internal/decide/"
)

var (
	decisionRow = regexp.MustCompile("^\\| (.+\\?) \\| `([a-z]+)\\.([A-Z]\\w*)` \\| (.+) \\| `(Test\\w+)` \\|$")
	decisionRef = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)`")
)

// decisionFunctions are the exported functions of the packages that decide.
func decisionFunctions(texts map[string]string) map[string][]string {
	out := map[string][]string{}
	for file, text := range texts {
		rel, below := strings.CutPrefix(file, decisions)
		if !below || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(rel, "/testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler tells
		}
		name := path.Dir(rel)
		out[name] = slices.Grow(out[name], 1)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				out[name] = append(out[name], f.Name.Name)
			}
		}
	}
	return out
}

// TestDecisionsMapNamesEveryPackageThatDecides: each package has a question, and
// each function, record and test that the page names is there.
func TestDecisionsMapNamesEveryPackageThatDecides(t *testing.T) {
	texts, e := repository(t), theEvidence(t)
	page, functions := texts[decisionsPage], decisionFunctions(texts)
	for _, line := range tables(strings.Split(page, "\n"), headDecisions) {
		m := decisionRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row of question, function, record and test: %s", line)
			continue
		}
		if _, mistake := e.find(m[5]); mistake != "" {
			t.Errorf("%s %s", m[1], mistake)
		}
		if !strings.Contains(m[4], "](adr/0") {
			t.Errorf("%s has no record", m[1])
		}
	}
	named := map[string]bool{}
	for _, m := range decisionRef.FindAllStringSubmatch(page, -1) {
		named[m[1]] = true
		if !slices.Contains(functions[m[1]], m[2]) {
			t.Errorf("%s names %s.%s, which is no function of %s%s", decisionsPage, m[1], m[2], decisions, m[1])
		}
	}
	for name := range functions {
		if !named[name] {
			t.Errorf("%s has no row for %s%s", decisionsPage, decisions, name)
		}
	}
	if len(functions) < 30 {
		t.Errorf("only %d packages were found", len(functions))
	}
}

// TestDecisionsMapHasThePrioritiesOfTheCode compares the table of priorities with
// the constants.
func TestDecisionsMapHasThePrioritiesOfTheCode(t *testing.T) {
	texts := repository(t)
	code := texts[decisions+"vrrp/vrrp.go"] + texts[decisions+"vrrp/weight.go"]
	rows := 0
	for _, line := range tables(strings.Split(texts[decisionsPage], "\n"), headPriority) {
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		constant := regexp.MustCompile(`\b` + strings.Trim(cells[0], "`") + `\s+= ` + regexp.QuoteMeta(cells[1]) + `\n`)
		if !constant.MatchString(code) {
			t.Errorf("decide/vrrp has no constant %s of value %s", cells[0], cells[1])
		}
	}
	if rows != 8 {
		t.Errorf("%d constants in the table", rows)
	}
}
