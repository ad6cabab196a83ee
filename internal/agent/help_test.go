package agent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestTheHelpOfEveryCommandIsTheApprovedText(t *testing.T) {
	lines := []string{""}
	for _, c := range newRoot(command.Streams{}).Commands() {
		lines = append(lines, c.Name())
	}
	var out bytes.Buffer
	for _, line := range lines {
		args := append(strings.Fields(line), "--help")
		out.WriteString("$ holdfast-agent " + strings.Join(args, " ") + "\n")
		if code := Run(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args); code != command.ExitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		out.WriteString("\n")
	}
	golden.Check(t, "help.txt", out.Bytes())
}
