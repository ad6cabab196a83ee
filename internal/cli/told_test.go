package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// told finds the command lines of holdfast in words for people: in backquotes, or a text that
// is nothing else.
var (
	told  = regexp.MustCompile("`(?:sudo )?(holdfast [^`]*)`")
	alone = regexp.MustCompile(`^(?:sudo )?(holdfast [a-z][a-z -]*[^.,;:]*)$`)
	// holes are what a caller of Sprintf fills in, with something that may stand there.
	holes = strings.NewReplacer("%[1]s", "x", "%s", "x", "%q", "x", "%d", "1", "%v", "x", "'", "", `"`, "")
)

// textOf is a string in a file of Go, with its place.
type textOf struct{ text, at string }

// textsIn returns the strings of a file of Go.
func textsIn(t *testing.T, path string) (out []textOf) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, is := n.(*ast.BasicLit)
		if !is || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, textOf{text, files.Position(lit.Pos()).String()})
		return true
	})
	return out
}

// linesTold returns the command lines that the strings of a file name, each with its place.
func linesTold(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, lit := range textsIn(t, path) {
		for _, found := range append(told.FindAllStringSubmatch(lit.text, -1), alone.FindAllStringSubmatch(lit.text, -1)...) {
			line, _, _ := strings.Cut(found[1], "#") // what follows is a remark
			if line == found[1] && strings.HasSuffix(line, " ") {
				line += "x" // a name follows
			}
			out[strings.TrimSpace(line)] = lit.at
		}
	}
	return out
}

// noLines are texts that only look like a line to type.
var noLines = map[string]string{
	"holdfast host remove":      "the cause of a removal, as a list keeps it",
	"holdfast host replace":     "the cause of a replacement, as a list keeps it",
	"holdfast corosync authkey": "what a key is derived for",
	"holdfast host x":           "the word for a reboot or a patch is put in",
}

// refuses says why a command line would not do anything; empty if it would.
func refuses(line string) string {
	words := strings.Fields(holes.Replace(line))[1:]
	cmd, rest, err := newRoot(Streams{}).Find(words)
	if err != nil {
		return err.Error()
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if !cmd.Runnable() || cmd.RunE == nil && cmd.Run == nil || cmd.HasSubCommands() && !doesMoreThanHelp(cmd) {
		return "it only prints help"
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

// doesMoreThanHelp reports whether a command with commands below it does something itself: it
// has flags, or an example, of its own.
func doesMoreThanHelp(cmd *cobra.Command) bool {
	return cmd.Example != "" || cmd.LocalNonPersistentFlags().HasFlags()
}

// TestEachCommandThatADecisionNamesIsOneThatDoesSomething: ways out of gates, of findings and
// of upgrades, parsed by the program itself.
func TestEachCommandThatADecisionNamesIsOneThatDoesSomething(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../decide", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for line, at := range linesTold(t, path) {
			seen++
			if why := refuses(line); why != "" && noLines[line] == "" {
				t.Errorf("%s: %s: %s", at, line, why)
			}
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Errorf("%d commands, %v", seen, err)
	}
}

// TestACommandThatDoesNothingIsFound: the test above can fail.
func TestACommandThatDoesNothingIsFound(t *testing.T) {
	for _, line := range []string{"holdfast upgrade", "holdfast upgrad status", "holdfast upgrade status --nothing", "holdfast upgrade start", "holdfast incident"} {
		if refuses(line) == "" {
			t.Errorf("%q is taken for a command that does something", line)
		}
	}
	for _, line := range []string{"holdfast upgrade status", "holdfast upgrade start RELEASE --skip backup=REASON", "holdfast explain"} {
		if why := refuses(line); why != "" {
			t.Errorf("%q: %s", line, why)
		}
	}
}
