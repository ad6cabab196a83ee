package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestThePageOfExitCodesHasThemAll(t *testing.T) {
	var b strings.Builder
	b.WriteString("| code | means |\n|---|---|\n")
	for i, e := range Exits() {
		if e.Code != i {
			t.Errorf("code %d stands at place %d", e.Code, i)
		}
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Means)
	}
	golden.Section(t, "../../../docs/exit-codes.md", "codes", b.String())
}

// The help of a command names its codes, among them 0 and 2.
func TestNoHelpNamesACodeThatTheTableLacks(t *testing.T) {
	for _, file := range []string{"../testdata/help.txt", "../../lab/labcli/testdata/help.txt"} {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		paragraphs := regexp.MustCompile(`(?s)Exit codes: (.*?)\n\n`).FindAllStringSubmatch(string(text), -1)
		for _, p := range paragraphs {
			said := map[int]bool{}
			for part := range strings.SplitSeq(strings.Join(strings.Fields(p[1]), " "), "; ") {
				word, _, _ := strings.Cut(part, " ")
				code, err := strconv.Atoi(word)
				if err != nil {
					continue // it continues a sentence
				}
				said[code] = true
				if code >= len(Exits()) {
					t.Errorf("%s: no code %d in the table: %s", file, code, p[0])
				}
			}
			if !said[ExitOK] || !said[ExitUsage] {
				t.Errorf("%s: 0 and 2 belong to it: %s", file, p[0])
			}
		}
		if !strings.Contains(file, "labcli") && len(paragraphs) < 10 {
			t.Errorf("%s: %d commands name their codes", file, len(paragraphs))
		}
	}
}
