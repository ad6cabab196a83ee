package cis

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const page = "../../../docs/cis.md"

// Verdicts of the table.
const (
	pass = "pass"
	fail = "**fail**"
	// theirs is for what a site does with its own workloads and people.
	theirs = "the site's"
)

// control is one line of the table. What is judged by a test has look; what only a
// test of another package shows names it; what a program of another project does
// by itself says whose word it is.
type control struct {
	id, what string
	look     func(*testing.T, facts) bool
	// shown is a test, or the program that does it.
	shown string
	// verdict is for what nobody looks at here.
	verdict string
	// why has to be there where the verdict is not pass.
	why string
}

func TestTheTableIsWhatIsRendered(t *testing.T) {
	f, tests := gather(t), everyTest(t)
	var out strings.Builder
	counts := map[string]int{}
	for _, section := range sections {
		fmt.Fprintf(&out, "\n## %s\n\n| | control | verdict | shown by | why, and what else |\n|---|---|---|---|---|\n", section.title)
		for _, c := range section.controls {
			verdict, shown := c.verdict, c.shown
			if c.look != nil {
				verdict = fail
				if c.look(t, f) {
					verdict = pass
				}
				if shown == "" {
					shown = "this test"
				}
			}
			if strings.HasPrefix(shown, "Test") {
				if !strings.Contains(tests, "func "+shown+"(") {
					t.Errorf("%s: there is no %s", c.id, shown)
				}
				shown = "`" + shown + "`"
			}
			if verdict != pass && c.why == "" {
				t.Errorf("%s is %s, and nobody says why", c.id, verdict)
			}
			if verdict == "" || shown == "" && verdict == pass {
				t.Errorf("%s: nobody looks, and nobody vouches for it", c.id)
			}
			counts[verdict]++
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", c.id, c.what, verdict, shown, c.why)
		}
	}
	fmt.Fprintf(&out, "\n%d pass, %d fail with their reason, %d are the site's.\n\n", counts[pass], counts[fail], counts[theirs])
	golden.Section(t, page, "controls", out.String())
}

func TestNoControlIsThereTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, section := range sections {
		for _, c := range section.controls {
			if seen[c.id] {
				t.Errorf("%s is there twice", c.id)
			}
			seen[c.id] = true
		}
	}
}

// podFile is a manifest of a static pod that some code of ours writes.
var podFile = regexp.MustCompile(`\{Path: (\w+\.)?PodPath,[^}]*\}`)

// CIS 1.1: those of ours were for everybody to read.
func TestEveryStaticPodIsWrittenForRootAlone(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, literal := range podFile.FindAllString(string(data), -1) {
			found++
			if !strings.Contains(literal, "Mode: state.SecretFileMode") {
				t.Errorf("%s writes %s", path, literal)
			}
		}
		return err
	})
	if err != nil || found < 4 {
		t.Errorf("%d were found: %v", found, err)
	}
}

// everyTest is the text of all tests.
func everyTest(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		out.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
