package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package p

type view struct{ n int }

var rules = []rule{
	{"a.b", "when", "why", act, func(v *view) bool { return v.in(one, two) && v.n > limit }, fill},
}

func fill(v *view, out *verdict) {
	r := v.next()
	r.A, r.B = 1, v.n
	r.Seq++
	out.Record = &r
}
`

func TestEachConditionStateLimitAndAssignmentIsChanged(t *testing.T) {
	var mutants []mutant
	changed, pkg, err := rewrite("p.go", source, &mutants)
	if err != nil || pkg != "p" {
		t.Fatal(pkg, err)
	}
	number(mutants)
	var got []string
	for _, m := range mutants {
		got = append(got, m.line())
	}
	want := []string{
		"p.go a.b: no fill",
		"p.go a.b: v.in(one, two) && v.n > limit becomes false",
		"p.go a.b: v.in(one, two) becomes true",
		"p.go a.b: v.n > limit becomes true",
		"p.go a.b: no one in the list",
		"p.go a.b: no two in the list",
		"p.go a.b: v.n > limit becomes v.n >= limit",
		"p.go fill: no r.A = 1",
		"p.go fill: no r.B = v.n",
		"p.go fill: no r.Seq++",
		"p.go fill: no out.Record = &r",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", changed, parser.SkipObjectResolution); err != nil {
		t.Errorf("%v\n%s", err, changed)
	}
}

func TestAnAcceptedChangeHasAReason(t *testing.T) {
	if _, err := equivalents("equivalent.txt"); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte("# why\nb\n\na\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := equivalents(path); err == nil {
		t.Error("a change is accepted without a reason")
	}
}

func TestWhatIsAcceptedAndNoticedIsTold(t *testing.T) {
	var out strings.Builder
	lives := mutant{file: "p.go", where: "f", what: "x"}
	if code := report(&out, 3, []mutant{lives}, map[string]string{lives.line(): "# why"}, 0); code != 0 {
		t.Error(out.String())
	}
	if code := report(&out, 3, nil, map[string]string{lives.line(): "# why"}, 0); code != 1 || !strings.Contains(out.String(), "no longer exist: p.go f: x") {
		t.Error(out.String())
	}
	if code := report(&out, 3, []mutant{lives}, nil, 0); code != 1 {
		t.Error("a change that nobody noticed is no failure")
	}
}
