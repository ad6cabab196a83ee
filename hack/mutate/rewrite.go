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

// variable names the change that the test program makes, seconds the processor
// time after which the kernel ends it.
const (
	variable = "HOLDFAST_MUTANT"
	seconds  = "HOLDFAST_MUTANT_SECONDS"
)

// support holds the functions that the changed sources call. Each call carries
// the number of its change and does nothing unless that change is switched on.
// A change may make a loop endless, so the kernel bounds time and memory.
const support = `
import (
	mutantos "os"
	mutantslices "slices"
	mutantstrconv "strconv"
	mutantsyscall "syscall"
)

var mutantOn, _ = mutantstrconv.Atoi(mutantos.Getenv("` + variable + `"))

func init() {
	if mutantOn == 0 {
		return
	}
	seconds, _ := mutantstrconv.ParseUint(mutantos.Getenv("` + seconds + `"), 10, 64)
	_ = mutantsyscall.Setrlimit(mutantsyscall.RLIMIT_CPU, &mutantsyscall.Rlimit{Cur: seconds, Max: seconds})
	_ = mutantsyscall.Setrlimit(mutantsyscall.RLIMIT_DATA, &mutantsyscall.Rlimit{Cur: 2 << 30, Max: 2 << 30})
}

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
		return mutantslices.Delete(mutantslices.Clone(list), k, k+1)
	}
	return list
}
`

// mutant is one change.
type mutant struct {
	id    int
	group int    // the first of the changes that one insertion makes
	file  string // with the directory of its package
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
	pkg     string
	src     string
	base    token.Pos
	out     *[]mutant
	where   []string
	results []*ast.FieldList // of the enclosing functions
	inserts []insert
}

type insert struct {
	group int
	at    int
	close bool
	order int
	text  string
}

// rewrite finds the changes of a file.
func rewrite(name, src string, out *[]mutant) (*rewriter, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	r := &rewriter{file: name, pkg: f.Name.Name, src: src, base: f.FileStart, out: out}
	for _, d := range f.Decls {
		r.walk(d)
	}
	slices.SortStableFunc(r.inserts, before)
	return r, nil
}

// before orders insertions. Of two that begin at one place the outer one comes
// first; of two that end at one place, the inner one.
func before(a, b insert) int {
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
}

// changed is a source with its changes built in, and where they are.
type changed struct {
	text  string
	spans []extent
}

// extent is the place of a change in the changed source.
type extent struct{ group, from, to int }

// apply makes the insertions but the refused ones.
func (r *rewriter) apply(refused map[int]bool) changed {
	var b strings.Builder
	var spans []extent
	var open []int // indexes of spans
	at := 0
	for _, i := range r.inserts {
		if refused[i.group] {
			continue
		}
		b.WriteString(r.src[at:i.at])
		at = i.at
		if !i.close {
			open = append(open, len(spans))
			spans = append(spans, extent{group: i.group, from: b.Len()})
		}
		b.WriteString(i.text)
		if i.close {
			spans[open[len(open)-1]].to = b.Len()
			open = open[:len(open)-1]
		}
	}
	b.WriteString(r.src[at:])
	return changed{b.String(), spans}
}

// at returns the innermost change around a place, or else all that begin on its
// line. The column is 0 where it is not known.
func (c changed) at(line, column int) []int {
	start := 0
	for range line - 1 {
		start += strings.IndexByte(c.text[start:], '\n') + 1
	}
	place, end := start+column-1, start+strings.IndexByte(c.text[start:]+"\n", '\n')
	inner := extent{}
	var beside []int
	for _, s := range c.spans {
		if column > 0 && s.from <= place && place < s.to && (inner.group == 0 || s.to-s.from < inner.to-inner.from) {
			inner = s
		}
		if start <= s.from && s.from <= end {
			beside = append(beside, s.group)
		}
	}
	if inner.group != 0 {
		return []int{inner.group}
	}
	return beside
}

func (r *rewriter) text(n ast.Node) string {
	return strings.Join(strings.Fields(r.src[n.Pos()-r.base:n.End()-r.base]), " ")
}

// longest bounds what is told of a change.
const longest = 100

// add records a change and returns its number.
func (r *rewriter) add(what string) int {
	if len(what) > longest {
		what = strings.ToValidUTF8(what[:longest], "") + "…"
	}
	id := len(*r.out) + 1
	*r.out = append(*r.out, mutant{id: id, group: id, file: r.file, where: strings.Join(r.where, " "), what: what})
	return id
}

// wrap puts text around a node, for a change or for the first of several.
func (r *rewriter) wrap(group int, n ast.Node, before, after string) {
	order := len(r.inserts)
	r.inserts = append(r.inserts,
		insert{group, int(n.Pos() - r.base), false, order, before},
		insert{group, int(n.End() - r.base), true, order, after})
}

// is replaces an expression by another one. Both are evaluated.
func (r *rewriter) is(e ast.Expr, other string) {
	id := r.add(r.text(e) + " becomes " + other)
	r.wrap(id, e, fmt.Sprintf("mutantIs(%d, %s, ", id, other), ")")
}

// holds replaces a condition by another one. Only one of them is evaluated.
func (r *rewriter) holds(e ast.Expr, other string) {
	id := r.add(r.text(e) + " becomes " + other)
	r.wrap(id, e, fmt.Sprintf("(mutantOn == %d && (%s) || mutantOn != %d && (", id, other, id), "))")
}

// none replaces an expression by the zero value of its type, where that is
// another one. Without the name of the type the compiler finds it.
func (r *rewriter) none(e ast.Expr, of, what string) {
	switch l := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		if l.Value == `""` || l.Value == "0" {
			return
		}
	case *ast.Ident:
		if l.Name == "nil" || l.Name == "false" {
			return
		}
	case *ast.CompositeLit:
		if _, list := l.Type.(*ast.ArrayType); !list && len(l.Elts) == 0 {
			return
		}
	}
	if of != "" {
		of = "[" + of + "]"
	}
	id := r.add(what)
	r.wrap(id, e, fmt.Sprintf("mutantNone%s(%d, ", of, id), ")")
}
