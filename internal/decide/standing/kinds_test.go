package standing

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const root = "../../../"

// ofIncidents lists alerts for things that have happened, not for a present
// state: reports of incidents say more (holdfast incidents).
var ofIncidents = []string{"HoldfastTookOver", "HoldfastFencedAgainAndAgain"}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// alertNames returns the names of the alerts in render/alerts.
func alertNames(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(read(t, "internal/render/alerts/rules.yaml"), -1) {
		out = append(out, m[1])
	}
	if len(out) < 20 {
		t.Fatalf("%d alerts", len(out))
	}
	return out
}

// allKinds lists the kinds of status and of doctor.
func allKinds() []finding.Kind { return slices.Concat(Kinds(), doctor.Kinds()) }

func TestEachAlertBelongsToAFindingAndEachFindingNamesAlertsThatExist(t *testing.T) {
	alerts, told := alertNames(t), slices.Clone(ofIncidents)
	for _, k := range allKinds() {
		told = append(told, k.Alerts...)
	}
	for _, a := range alerts {
		if !slices.Contains(told, a) {
			t.Errorf("alert %s belongs to no finding of status, no check of doctor and no incident", a)
		}
	}
	for _, a := range told {
		if !slices.Contains(alerts, a) {
			t.Errorf("there is no alert %s", a)
		}
	}
}

func TestEachKindHasItsOwnIDAndAPageThatIsThere(t *testing.T) {
	var seen []finding.ID
	for _, k := range allKinds() {
		if slices.Contains(seen, k.ID) || k.Title == "" {
			t.Errorf("%s: twice, or without words", k.ID)
		}
		seen = append(seen, k.ID)
		if k.Page == "" {
			continue
		}
		path, anchor, _ := strings.Cut(k.Page, "#")
		text := strings.ToLower(read(t, path))
		if anchor != "" && !strings.Contains(text, "# "+anchor+"\n") {
			t.Errorf("%s: %s has no part %s", k.ID, path, anchor)
		}
	}
}

func TestEveryFindingOfEverySituationHasAKind(t *testing.T) {
	for name, facts := range situations(t) {
		for _, f := range Describe(facts).Findings {
			if !slices.ContainsFunc(Kinds(), func(k finding.Kind) bool { return k.ID == f.ID }) {
				t.Errorf("%s: %q has no kind: %q", name, f.Problem, f.ID)
			}
		}
	}
}

// This test reads the source, because the situations do not produce every
// finding.
func TestTheSourceMakesNoFindingWithoutAnIDAndUsesEachID(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, used := token.NewFileSet(), map[string]bool{}
	for _, name := range files {
		if name == "kinds.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			l, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			id := ""
			for _, e := range l.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && strings.EqualFold(fmt.Sprint(kv.Key), "id") {
					id = fmt.Sprint(kv.Value)
				}
			}
			used[id] = true
			if made, ok := l.Type.(*ast.SelectorExpr); ok && made.Sel.Name == "Finding" && id == "" {
				t.Errorf("%s: a Finding without an ID", set.Position(l.Pos()))
			}
			return true
		})
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +finding\.ID = "`).FindAllStringSubmatch(read(t, "internal/decide/standing/kinds.go"), -1) {
		if !used[m[1]] {
			t.Errorf("nothing makes a finding %s", m[1])
		}
	}
	for _, k := range Kinds() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(k.ID)) {
			t.Errorf("ID %q", k.ID)
		}
	}
}

func TestThePageOfFindingsListsThemAll(t *testing.T) {
	page := filepath.Join(root, "docs/findings.md")
	var b strings.Builder
	b.WriteString("| id | what is found | page | alerts |\n|---|---|---|---|\n")
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.ID, k.Title, link(k.Page), alertLinks(k.Alerts))
	}
	golden.Section(t, page, "findings", b.String())
	b.Reset()
	b.WriteString("| id | what is expected | alerts |\n|---|---|---|\n")
	for _, k := range doctor.Kinds() {
		fmt.Fprintf(&b, "| [`%s`](%s) | %s | %s |\n", k.ID, strings.TrimPrefix(k.Page, "docs/"), k.Title, alertLinks(k.Alerts))
	}
	golden.Section(t, page, "checks", b.String())
	golden.Section(t, page, "incidents", alertLinks(ofIncidents)+"\n")
}

func link(page string) string {
	if page == "" {
		return "–"
	}
	page = strings.TrimPrefix(page, "docs/")
	name, _, _ := strings.Cut(strings.TrimPrefix(page, "runbook/"), "#")
	return "[" + strings.TrimSuffix(name, ".md") + "](" + page + ")"
}

func alertLinks(alerts []string) string {
	if len(alerts) == 0 {
		return "–"
	}
	var out []string
	for _, a := range alerts {
		out = append(out, "["+a+"](runbook/alerts.md#"+strings.ToLower(a)+")")
	}
	return strings.Join(out, ", ")
}
