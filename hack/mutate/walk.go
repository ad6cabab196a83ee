package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// walk visits a node before its children, so that outer changes enclose inner
// ones.
func (r *rewriter) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil || n == root && r.opened(n) {
			return n != nil
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				r.inside(n.Name.Name, n.Type.Results, n.Body)
			}
			return false
		case *ast.FuncLit:
			r.inside("", n.Type.Results, n.Body)
			return false
		case *ast.CompositeLit:
			return r.literal(n)
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				return false
			}
		}
		r.change(n)
		return true
	})
}

// opened reports whether walk visits only the children of a root, and not the
// root itself.
func (r *rewriter) opened(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		r.statements(n.List)
		return true
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.CompositeLit:
		return true
	}
	return false
}

// inside visits a function's body.
func (r *rewriter) inside(name string, results *ast.FieldList, body *ast.BlockStmt) {
	if name != "" {
		r.where = append(r.where, name)
		defer func() { r.where = r.where[:len(r.where)-1] }()
	}
	r.results = append(r.results, results)
	r.walk(body)
	r.results = r.results[:len(r.results)-1]
}

// literal visits a composite: a rule of the table, a list, or a structure with
// named fields. It reports whether walk must still visit its parts.
func (r *rewriter) literal(n *ast.CompositeLit) bool {
	if list, ok := n.Type.(*ast.ArrayType); ok && list.Len == nil && plain(n.Elts) {
		r.list(n.Elts, func(first int) { r.wrap(first, n, fmt.Sprintf("mutantLess(%d, ", first), "...)") })
		return !ends(list.Elt, "EtcdState")
	}
	if name, ok := rule(n); ok {
		r.where = append(r.where, name)
		r.none(n.Elts[len(n.Elts)-1], "", "no "+r.text(n.Elts[len(n.Elts)-1]))
		r.walk(n)
		r.where = r.where[:len(r.where)-1]
		return false
	}
	for _, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			r.none(kv.Value, "", "no "+r.text(kv))
		}
	}
	return true
}

// plain reports whether a list has elements without indexes that are no rules:
// a rule's condition is changed instead.
func plain(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool {
		_, indexed := e.(*ast.KeyValueExpr)
		c, literal := e.(*ast.CompositeLit)
		if !literal {
			return indexed
		}
		_, ok := rule(c)
		return ok
	})
}

// rule returns the name of a rule of the table: a literal that begins with it
// and holds its condition.
func rule(n *ast.CompositeLit) (string, bool) {
	if n.Type != nil || len(n.Elts) != 6 {
		return "", false
	}
	name, ok := n.Elts[0].(*ast.BasicLit)
	if !ok || name.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(name.Value)
	return text, err == nil
}

func ends(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}

// list leaves out each element of a list in turn.
func (r *rewriter) list(list []ast.Expr, wrap func(first int)) {
	first := len(*r.out) + 1
	for _, e := range list {
		id := r.add("no " + r.text(e) + " in the list")
		(*r.out)[id-1].group = first
	}
	if len(list) > 0 {
		wrap(first)
	}
}

func (r *rewriter) change(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		r.binary(n)
	case *ast.CallExpr:
		r.call(n)
	case *ast.IfStmt:
		r.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			r.holds(n.Cond, "false")
		}
	case *ast.ReturnStmt:
		r.returned(n)
	case *ast.SwitchStmt:
		r.cases(n)
	case *ast.BlockStmt:
		r.statements(n.List)
	case *ast.CaseClause:
		r.statements(n.Body)
	}
}

// binary takes out each operand of a condition, and moves a limit.
func (r *rewriter) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR:
		neutral := map[string]string{"&&": "true", "||": "false"}[n.Op.String()]
		for _, e := range []ast.Expr{n.X, n.Y} {
			if b, ok := e.(*ast.BinaryExpr); !ok || b.Op != n.Op {
				r.holds(e, neutral)
			}
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		moved := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[n.Op.String()]
		other := r.text(n.X) + " " + moved + " " + r.text(n.Y)
		r.holds(n, other)
	case token.ADD, token.SUB:
		if steady(n.X) && steady(n.Y) {
			other := map[string]string{"+": " - ", "-": " + "}[n.Op.String()]
			r.is(n, r.text(n.X)+other+r.text(n.Y))
		}
	default:
	}
}

// steady reports whether an expression may be evaluated twice and is no text.
func steady(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			ok = ok && n.Kind != token.STRING
		case *ast.CallExpr, *ast.FuncLit, *ast.UnaryExpr:
			ok = false
		}
		return ok
	})
	return ok
}

// call takes out each state of a question for states, and replaces min and max
// by each of their two arguments.
func (r *rewriter) call(n *ast.CallExpr) {
	switch f := n.Fun.(type) {
	case *ast.SelectorExpr:
		if f.Sel.Name == "in" || f.Sel.Name == "peerIn" {
			r.list(n.Args, func(first int) {
				at := &span{n.Args[0].Pos(), n.Args[len(n.Args)-1].End()}
				r.wrap(first, at, fmt.Sprintf("mutantLess(%d, ", first), ")...")
			})
		}
	case *ast.Ident:
		if (f.Name == "min" || f.Name == "max") && len(n.Args) == 2 {
			r.is(n, r.text(n.Args[0]))
			r.is(n, r.text(n.Args[1]))
		}
	}
}

// span is a part of the source.
type span struct{ from, to token.Pos }

func (s *span) Pos() token.Pos { return s.from }
func (s *span) End() token.Pos { return s.to }

// condition makes a condition never hold, or always hold. A chain of && is only
// made never to hold, and one of || only always: binary covers the other
// direction when it takes out an operand.
func (r *rewriter) condition(e ast.Expr) {
	b, _ := ast.Unparen(e).(*ast.BinaryExpr)
	and, or := b != nil && b.Op == token.LAND, b != nil && b.Op == token.LOR
	constant, _ := e.(*ast.Ident)
	if !or && (constant == nil || constant.Name != "false") {
		r.holds(e, "false")
	}
	if !and && (constant == nil || constant.Name != "true") {
		r.holds(e, "true")
	}
}

// returned changes each bool that a function returns, and leaves out what else
// it returns.
func (r *rewriter) returned(n *ast.ReturnStmt) {
	results := r.results[len(r.results)-1]
	if results == nil {
		return
	}
	var types []ast.Expr
	for _, f := range results.List {
		for range max(len(f.Names), 1) {
			types = append(types, f.Type)
		}
	}
	if len(types) != len(n.Results) {
		return
	}
	for i, e := range n.Results {
		if t, ok := types[i].(*ast.Ident); ok && t.Name == "bool" {
			r.condition(e)
			continue
		}
		r.none(e, r.text(types[i]), "returns no "+r.text(e))
	}
}

// cases takes out each case of a switch.
func (r *rewriter) cases(n *ast.SwitchStmt) {
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		for _, e := range c.List {
			switch {
			case len(c.Body) == 0: // an empty case does nothing
			case n.Tag == nil:
				r.condition(e)
			default:
				r.none(e, "", "no case "+r.text(e))
			}
		}
	}
}

// statements takes out each assignment, and each call that is made for its
// effect.
func (r *rewriter) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.IncDecStmt:
			r.skip(s)
		case *ast.AssignStmt:
			r.assignment(s)
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); ok && !r.told(c) {
				r.skip(s)
			}
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE {
				r.skip(s)
			}
		}
	}
}

// told reports whether a call only logs, or is one to panic: no function ends
// without that.
func (r *rewriter) told(c *ast.CallExpr) bool {
	name := strings.ToLower(r.text(c.Fun))
	return name == "panic" || strings.HasSuffix(name, "logf") || strings.Contains(name, "log.") || strings.Contains(name, "slog.")
}

func (r *rewriter) skip(s ast.Stmt) {
	id := r.add("no " + r.text(s))
	r.wrap(id, s, fmt.Sprintf("if mutantOn != %d { ", id), " }")
}

func (r *rewriter) assignment(s *ast.AssignStmt) {
	blank := func(e ast.Expr) bool { i, ok := e.(*ast.Ident); return ok && i.Name == "_" }
	switch {
	case s.Tok == token.DEFINE || !slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { return !blank(e) }):
	case s.Tok != token.ASSIGN || len(s.Lhs) != len(s.Rhs) || len(s.Lhs) == 1:
		r.skip(s)
	default:
		for i, e := range s.Rhs {
			if !blank(s.Lhs[i]) {
				id := r.add("no " + r.text(s.Lhs[i]) + " = " + r.text(e))
				r.wrap(id, e, fmt.Sprintf("mutantIs(%d, %s, ", id, r.text(s.Lhs[i])), ")")
			}
		}
	}
}
