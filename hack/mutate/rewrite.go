package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// variable names the change that the test program makes.
const variable = "HOLDFAST_MUTANT"

// support holds the functions that the changed sources call. Each call carries
// the number of its change and does nothing unless that change is switched on.
const support = `
import (
	"os"
	"slices"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + variable + `"))

// mutantIs gives another value in place of the real one.
func mutantIs[T any](id int, other, real T) T {
	if id == mutantOn {
		return other
	}
	return real
}

// mutantNone gives nothing in place of the real one.
func mutantNone[T any](id int, real T) T {
	if id == mutantOn {
		var none T
		return none
	}
	return real
}

// mutantLess leaves one of a list out.
func mutantLess[T any](first int, list ...T) []T {
	if k := mutantOn - first; k >= 0 && k < len(list) {
		return slices.Delete(slices.Clone(list), k, k+1)
	}
	return list
}
`

// mutant is one change.
type mutant struct {
	id    int
	file  string
	where string // the rule or function
	what  string // the source, and what replaces it
	nth   int    // counts changes that read the same
}

// line identifies a change in a way that stays the same when lines move.
func (m mutant) line() string {
	s := m.file + " " + m.where + ": " + m.what
	if m.nth > 1 {
		s += fmt.Sprintf(" (%d)", m.nth)
	}
	return s
}

// number numbers the changes that read the same.
func number(mutants []mutant) {
	seen := make(map[string]int)
	for i := range mutants {
		line := mutants[i].line()
		seen[line]++
		mutants[i].nth = seen[line]
	}
}

// rewriter collects insertions into a file.
type rewriter struct {
	file    string
	src     string
	base    token.Pos
	out     *[]mutant
	where   []string
	results []*ast.FieldList // of the enclosing functions
	inserts []insert
}

type insert struct {
	at    int
	close bool
	order int
	text  string
}

// rewrite returns a source with all changes built in, and its package.
func rewrite(name, src string, out *[]mutant) (changed, pkg string, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	r := &rewriter{file: name, src: src, base: f.FileStart, out: out}
	for _, d := range f.Decls {
		r.walk(d)
	}
	return r.apply(), f.Name.Name, nil
}

// apply makes the insertions. Of two that begin at one place the outer one
// comes first; of two that end at one place, the inner one.
func (r *rewriter) apply() string {
	slices.SortStableFunc(r.inserts, func(a, b insert) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.close != b.close {
			if a.close {
				return -1
			}
			return 1
		}
		if a.close {
			return b.order - a.order
		}
		return a.order - b.order
	})
	var b strings.Builder
	at := 0
	for _, i := range r.inserts {
		b.WriteString(r.src[at:i.at])
		b.WriteString(i.text)
		at = i.at
	}
	b.WriteString(r.src[at:])
	return b.String()
}

func (r *rewriter) text(n ast.Node) string {
	return strings.Join(strings.Fields(r.src[n.Pos()-r.base:n.End()-r.base]), " ")
}

// add records a change and returns its number.
func (r *rewriter) add(what string) int {
	id := len(*r.out) + 1
	*r.out = append(*r.out, mutant{id: id, file: r.file, where: strings.Join(r.where, " "), what: what})
	return id
}

// wrap puts text around a node.
func (r *rewriter) wrap(n ast.Node, before, after string) {
	order := len(r.inserts)
	r.inserts = append(r.inserts,
		insert{int(n.Pos() - r.base), false, order, before},
		insert{int(n.End() - r.base), true, order, after})
}

// is replaces an expression by another one.
func (r *rewriter) is(e ast.Expr, other string) {
	id := r.add(r.text(e) + " becomes " + other)
	r.wrap(e, fmt.Sprintf("mutantIs(%d, %s, ", id, other), ")")
}

// none replaces an expression by the zero value.
func (r *rewriter) none(e ast.Expr, what string) {
	switch l := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return
	case *ast.Ident:
		if l.Name == "nil" {
			return
		}
	}
	r.wrap(e, fmt.Sprintf("mutantNone(%d, ", r.add(what)), ")")
}
