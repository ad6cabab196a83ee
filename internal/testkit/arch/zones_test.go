package arch

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEachProgramThatReadsTimeZonesHasThem: a host need not have any, and a schedule that one
// program accepts would be refused by the one that goes by it.
func TestEachProgramThatReadsTimeZonesHasThem(t *testing.T) {
	reads, programs := map[string]bool{}, 0
	all := listPackages(t)
	for _, p := range all {
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			reads[p.ImportPath] = reads[p.ImportPath] || names(parsed, "time", "LoadLocation")
		}
	}
	for _, p := range all {
		program, ok := strings.CutPrefix(p.ImportPath, module+"cmd/")
		if !ok || !slices.ContainsFunc(p.Deps, func(dep string) bool { return reads[dep] }) {
			continue
		}
		programs++
		if !slices.Contains(p.Deps, "time/tzdata") {
			t.Errorf("%s reads time zones: import time/tzdata in its main package", program)
		}
	}
	if programs < 3 {
		t.Errorf("%d programs read time zones, want the command, the agent and the operator", programs)
	}
}
