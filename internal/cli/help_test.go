package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// runLine runs one command line and returns its exit code, output and errors.
func runLine(t *testing.T, line ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, line)
	return code, stdout.String(), stderr.String()
}

// walk calls visit with every command that is not hidden.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			walk(child, visit)
		}
	}
}

func TestTheHelpOfEveryCommandIsTheApprovedText(t *testing.T) {
	var lines [][]string
	walk(newRoot(Streams{}), func(c *cobra.Command) {
		if c.Name() != "lab" { // holdfast-lab's own test covers that one
			lines = append(lines, strings.Fields(c.CommandPath())[1:])
		}
	})
	var out bytes.Buffer
	for _, line := range lines {
		code, text, errs := runLine(t, append(slices.Clone(line), "--help")...)
		if code != ExitOK || errs != "" {
			t.Errorf("%v: exit code %d, %s", line, code, errs)
		}
		out.WriteString("$ holdfast " + strings.Join(append(line, "--help"), " ") + "\n" + text + "\n")
	}
	golden.Check(t, "help.txt", out.Bytes())
}

func TestAFlagThatNamesAPlaceMeansTheSameAtEveryCommand(t *testing.T) {
	meanings := map[string]map[string]bool{}
	walk(newRoot(Streams{}), func(c *cobra.Command) {
		for _, name := range []string{"kubeconfig", "lab", "hosts", "exec"} {
			if f := c.Flags().Lookup(name); f != nil {
				if meanings[name] == nil {
					meanings[name] = map[string]bool{}
				}
				meanings[name][f.Usage] = true
			}
		}
	})
	// A kubeconfig is that of any cluster, of this host's, or of an install directory.
	for name, want := range map[string]int{"kubeconfig": 3, "lab": 1, "hosts": 1, "exec": 1} {
		if len(meanings[name]) != want {
			t.Errorf("--%s has %d meanings, want %d: declare it through package place: %v", name, len(meanings[name]), want, meanings[name])
		}
	}
}

func TestEveryCommandSaysWhatItDoesAndShowsHow(t *testing.T) {
	simple := []string{"holdfast version"} // no example is needed
	walk(newRoot(Streams{}), func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short description %q", path, c.Short)
		}
		if !c.HasSubCommands() && c.Example == "" && !slices.Contains(simple, path) {
			t.Errorf("%s: no example", path)
		}
	})
}
