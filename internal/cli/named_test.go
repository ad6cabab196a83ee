package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// namedCommand finds command lines of holdfast: in code of a page, or in a text of the
// program. The words behind the name may be commands, arguments, or prose.
var namedCommand = regexp.MustCompile("(?m)(?:^|sudo |[`'\"(] ?|: |\\$ )holdfast((?: [a-z][a-z-]*)+)")

// code finds the code of a page.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")

// noCommands are sentences and contexts that look like command lines.
var noCommands = map[string]bool{
	"fencing facts":                  true, // ADR 0049 tells what was replaced
	"builds":                         true,
	"is missing there":               true,
	"explain on the host that is up": true,
	"corosync authkey":               true, // the context of a derived key
}

// TestEveryCommandThatSomebodyIsToldToTypeExists reads every page and every text of the
// program: a finding, a gate or a page must not name a command that is not there.
func TestEveryCommandThatSomebodyIsToldToTypeExists(t *testing.T) {
	root := newRoot(command.Streams{})
	found := 0
	check := func(path, text string) {
		for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
			found++
			words := strings.Fields(m[1])
			if line := strings.Join(words, " "); !noCommands[line] && !exists(root, words) {
				t.Errorf("%s: there is no command 'holdfast %s'", path, line)
			}
		}
	}
	for _, dir := range []string{"../../docs", "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "..", "../../payload"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
				return err
			case strings.HasSuffix(path, ".md"):
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for _, span := range code.FindAllString(string(data), -1) {
					check(path, span)
				}
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				for _, lit := range textsIn(t, path) {
					check(lit.at, lit.text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 500 {
		t.Errorf("only %d command lines were found: the patterns no longer fit", found)
	}
}

// exists reports whether words begin with a whole command. What follows a command without
// children are arguments or prose. A group alone is named where its help is meant.
func exists(cmd *cobra.Command, words []string) bool {
	for i, word := range words {
		next := child(cmd, word)
		if next == nil {
			return i > 0 && !cmd.HasAvailableSubCommands()
		}
		cmd = next
	}
	return true
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}
