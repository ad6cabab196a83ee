package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const example = `package p

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
	r, err := rewrite("p.go", example, &mutants)
	if err != nil || r.pkg != "p" {
		t.Fatal(r, err)
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
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", r.apply(nil).text, parser.SkipObjectResolution); err != nil {
		t.Errorf("%v\n%s", err, r.apply(nil).text)
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

const general = `package p

const most = 1 + 2

func f(n int, names []string) (string, error) {
	if n > 3 {
		log.Info("many")
		return "", errors.New("many")
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		slices.Sort(names)
	}
	return names[n-1], nil
}

func g() kind { return kind{} }

var kinds = []kind{{name: "a"}, {name: "b"}}
`

func TestWhatAFunctionReturnsCallsAndListsIsChanged(t *testing.T) {
	var mutants []mutant
	r, err := rewrite("p.go", general, &mutants)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		got = append(got, m.line())
	}
	want := []string{
		"p.go f: n > 3 becomes false",
		"p.go f: n > 3 becomes true",
		"p.go f: n > 3 becomes n >= 3",
		`p.go f: returns no errors.New("many")`,
		"p.go f: no slices.Sort(names)",
		`p.go f: name == "" becomes false`,
		`p.go f: name == "" becomes true`,
		"p.go f: no continue",
		"p.go f: returns no names[n-1]",
		"p.go f: n-1 becomes n + 1",
		`p.go : no {name: "a"} in the list`,
		`p.go : no {name: "b"} in the list`,
		`p.go : no name: "a"`,
		`p.go : no name: "b"`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", r.apply(nil).text, parser.SkipObjectResolution); err != nil {
		t.Errorf("%v\n%s", err, r.apply(nil).text)
	}
}

func TestAChangeThatTheCompilerRefusesIsLeftOut(t *testing.T) {
	var mutants []mutant
	r, err := rewrite("p.go", general, &mutants)
	if err != nil {
		t.Fatal(err)
	}
	text := r.apply(nil).text
	line, column := place(text, "n + 1")
	refused := make(map[int]bool)
	if !refuse(fmt.Sprintf("./p.go:%d:%d: cannot subtract\n", line, column), map[string]changed{"p.go": r.apply(nil)}, refused) {
		t.Fatal("no change was found at the place")
	}
	left := accepted(mutants, refused)
	if len(left) != len(mutants)-1 || strings.Contains(r.apply(refused).text, "n + 1") {
		t.Errorf("%d of %d are left\n%s", len(left), len(mutants), r.apply(refused).text)
	}
	if refuse("p.go:1:1: something else\n", map[string]changed{"p.go": r.apply(nil)}, refused) {
		t.Error("a complaint of a place without a change left one out")
	}
}

// place returns the line and column of a text.
func place(text, at string) (line, column int) {
	i := strings.Index(text, at)
	return 1 + strings.Count(text[:i], "\n"), i - strings.LastIndex(text[:i], "\n")
}

func TestTheSameSeedDrawsTheSameSample(t *testing.T) {
	var all []mutant
	for i := range 100 {
		all = append(all, mutant{id: i + 1})
	}
	draw := func(seed uint64, name string) []mutant {
		return options{seed: seed, sample: 10}.choose(name, slices.Clone(all))
	}
	first := draw(1, "p")
	if len(first) != 10 || !slices.Equal(first, draw(1, "p")) {
		t.Error("the sample of a seed is not always the same", first)
	}
	if slices.Equal(first, draw(2, "p")) || slices.Equal(first, draw(1, "q")) {
		t.Error("another seed, or another package, has the same sample")
	}
}

func TestWhatIsAcceptedAndNoticedIsTold(t *testing.T) {
	lives := mutant{file: "p/p.go", where: "f", what: "x"}
	other := mutant{file: "p/p.go", where: "f", what: "y"}
	excuse := map[string]string{lives.line(): "# why"}
	for _, c := range []struct {
		name         string
		tried, alive []mutant
		accepted     map[string]string
		whole        bool
		code         int
		says         string
	}{
		{"an accepted change lives", []mutant{lives, other}, []mutant{lives}, excuse, true, 0, "1 noticed, 1 accepted"},
		{"an accepted change is noticed", []mutant{lives, other}, nil, excuse, true, 1, "no longer exists: p/p.go f: x"},
		{"an accepted change is gone", []mutant{other}, nil, excuse, true, 1, "no longer exists: p/p.go f: x"},
		{"an accepted change is not in the sample", []mutant{other}, nil, excuse, false, 0, "1 noticed, 0 accepted"},
		{"a change lives", []mutant{lives, other}, []mutant{lives}, nil, true, 1, "50.0 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			sum := tally{out: &out, least: 90, accepted: c.accepted}
			sum.add("p", 2, c.tried, c.alive, c.whole, 0)
			if code := sum.end(); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit status %d\n%s", code, out.String())
			}
		})
	}
}

func TestAShareBelowTheWantedOneFails(t *testing.T) {
	var all []mutant
	for i := range 10 {
		all = append(all, mutant{id: i + 1, file: "p/p.go", what: string(rune('a' + i))})
	}
	for alive, code := range map[int]int{1: 0, 2: 1} {
		sum := tally{out: io.Discard, least: 90}
		sum.add("p", 10, all, all[:alive], true, 0)
		if got := sum.end(); got != code {
			t.Errorf("%d of 10 live: exit status %d", alive, got)
		}
	}
}
