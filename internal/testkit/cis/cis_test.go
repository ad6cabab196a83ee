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
	// theirs marks controls that depend on a site's own workloads and people.
	theirs = "the site's"
)

// control is one line of the table. look judges it. If only a test of another
// package shows it, shown names that test; if a program of another project does
// it by itself, shown names that program.
type control struct {
	id, what string
	look     func(*testing.T, facts) bool
	// shown names a test, or the program that does it.
	shown string
	// verdict is set if nothing here judges the control.
	verdict string
	// why is required unless the verdict is pass.
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

// podFile matches code of ours that writes the manifest of a static pod.
var podFile = regexp.MustCompile(`\{Path: (\w+\.)?PodPath,[^}]*\}`)

// CIS 1.1: everybody could once read the static pods that we write.
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

// everyTest returns the text of all tests.
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
