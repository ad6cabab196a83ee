package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	glossaryPage = "docs/GLOSSARY.md"
	headGlossary = "| term | meaning | in the code | not |"
)

// TestGlossaryHasEachTermOnceAndWhereItIs checks that a term stands in one row,
// and that each path exists.
func TestGlossaryHasEachTermOnceAndWhereItIs(t *testing.T) {
	terms := map[string]bool{}
	var rows [][]string
	for _, line := range tables(strings.Split(repository(t)[glossaryPage], "\n"), headGlossary) {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			t.Errorf("not a row of term, meaning, code and other words: %s", line)
			continue
		}
		if terms[cells[0]] {
			t.Errorf("%s has two rows", cells[0])
		}
		terms[cells[0]], rows = true, append(rows, cells)
	}
	for _, cells := range rows {
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !isThere(m[1]) {
				t.Errorf("%s: there is no %s", cells[0], m[1])
			}
		}
	}
	if len(rows) < 60 {
		t.Errorf("only %d terms were found", len(rows))
	}
}

// isThere reports whether a path exists, from the root or below internal.
func isThere(path string) bool {
	return slices.ContainsFunc([]string{tree, filepath.Join(tree, "internal")}, func(root string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
		return err == nil
	})
}
