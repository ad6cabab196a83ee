package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is a piece of code in Markdown.
var quoted = regexp.MustCompile("`([^`]+)`")

// testName is the name of a test or a fuzz target.
var testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`)

// TestConformanceNamesWhatExists keeps docs/CONFORMANCE.md honest: what it
// calls a proof must be there.
func TestConformanceNamesWhatExists(t *testing.T) {
	page := read(t, "../../docs/CONFORMANCE.md")
	tests := testsOf(t)
	rules := read(t, "../config/testdata/rules.txt")
	sentences := read(t, "../topology/topology_test.go")
	proofs := 0
	for _, match := range quoted.FindAllStringSubmatch(page, -1) {
		text := match[1]
		rule, isRule := strings.CutPrefix(text, "rule: ")
		sentence, isSentence := strings.CutPrefix(text, "sentence: ")
		switch {
		case rule == "…" || sentence == "…":
		case isRule && !strings.Contains("\n"+rules, "\n"+rule+"\n"):
			t.Errorf("no such rule: %s", rule)
		case isSentence && !strings.Contains(sentences, `"`+sentence+`"`):
			t.Errorf("no such sentence: %s", sentence)
		case testName.MatchString(text) && !tests[text]:
			t.Errorf("no such test: %s", text)
		case isRule || isSentence || testName.MatchString(text):
			proofs++
		}
	}
	if proofs < 50 {
		t.Errorf("only %d proofs were found: the page is not read as it is written", proofs)
	}
}

// TestEveryStatementHasAProof looks at the rows of the page's tables.
func TestEveryStatementHasAProof(t *testing.T) {
	for line := range strings.Lines(read(t, "../../docs/CONFORMANCE.md")) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 3 || strings.HasPrefix(line, "| statement") {
			continue
		}
		proof, reason := cells[2], strings.Trim(cells[len(cells)-1], "| ")
		if !quoted.MatchString(proof) && (proof != "–" || reason == "") {
			t.Errorf("neither a proof nor a reason: %s", line)
		}
	}
}

var definition = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testsOf returns the names of all tests of the module.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, root := range []string{"..", "../../test", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range definition.FindAllStringSubmatch(read(t, path), -1) {
				found[m[1]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
