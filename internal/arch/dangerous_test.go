package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dangerous are the calls by which a host has another one switched off, votes
// in its name, drops a member, ends the wait for quorum or empties a copy. They
// are made from one place, which hands them to internal/act; whoever else may
// make one is named with its reason.
var dangerous = map[string][]string{
	"pacemaker.Fence":       {"internal/agent/etcd", "internal/cli"}, // fencing verify --disruptive
	"pacemaker.GrantQuorum": {"internal/agent/etcd"},
	"etcd.StartStandIn":     {"internal/agent/etcd"},
	"etcd.Empty":            {"internal/agent/etcd"},
}

func TestWhatCannotBeUndoneIsDoneFromOnePlace(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for call := range calls(file) {
				allowed, is := dangerous[call]
				found[call] = found[call] || is
				if is && !slices.Contains(allowed, rel) {
					t.Errorf("%s calls %s: steps of the two-node protocol go through internal/act", rel, call)
				}
			}
		}
	}
	for call := range dangerous {
		if !found[call] {
			t.Errorf("nobody calls %s any more: take it out of the table", call)
		}
	}
}

// calls yields package.Function for each such selector of a file.
func calls(file *ast.File) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					return yield(x.Name + "." + s.Sel.Name)
				}
			}
			return true
		})
	}
}
