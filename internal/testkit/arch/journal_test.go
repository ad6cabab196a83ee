package arch

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// collectors lists the packages that run journalctl, each for a person who
// reads the output.
var collectors = map[string]string{
	"internal/report/bundle": "a support bundle",
	"internal/lab/labcli":    "holdfast lab logs",
}

// TestNobodyReadsTheJournal checks that no program reads a log: its text is for
// people and may be reworded at any time. A part learns of another through an
// event (state.Event).
func TestNobodyReadsTheJournal(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if !says(file, `"journalctl"`) {
				continue
			}
			found[rel] = true
			if collectors[rel] == "" {
				t.Errorf("%s/%s runs journalctl: take events (docs/adr/0043-events.md)", rel, name)
			}
		}
	}
	for rel := range collectors {
		if !found[rel] {
			t.Errorf("%s does not run journalctl any more: take it out of the table", rel)
		}
	}
}
