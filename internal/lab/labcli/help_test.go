package labcli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestTheHelpOfEveryCommandIsTheApprovedText(t *testing.T) {
	t.Setenv("HOLDFAST_LAB", "") // the default of a flag comes from it
	var out bytes.Buffer
	var show func(cmd *cobra.Command, line []string)
	show = func(cmd *cobra.Command, line []string) {
		line = append(slices.Clip(line), "--help")
		code, text, errs := runLine(t, line...)
		if code != command.ExitOK || errs != "" {
			t.Errorf("%v: exit code %d, %s", line, code, errs)
		}
		out.WriteString("$ holdfast lab " + strings.Join(line, " ") + "\n" + text + "\n")
		for _, child := range cmd.Commands() {
			if !child.Hidden {
				show(child, append(slices.Clip(line[:len(line)-1]), child.Name()))
			}
		}
	}
	show(newRoot(command.Streams{}), nil)
	golden.Check(t, "help.txt", out.Bytes())
}
