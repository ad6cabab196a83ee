package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

func newExplainUpgrade(streams Streams) *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Explain what an upgrade waits for, and what to type",
		Long: `Says what the site does on its way to another release, for what it waits, which host holds
or went back and why, and which command helps. It asks the API and changes nothing;
holdfast upgrade status shows every host.

Exit codes: 0 nothing is in the way; 3 something is; 1 the command failed; 2 wrong usage.`,
		Example: `  holdfast explain upgrade
  holdfast explain upgrade -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			return explainUpgrade(cmd.Context(), c, streams.Out, f.output)
		},
	}
	f.register(cmd)
	return cmd
}

// upgradeExplanation says what an upgrade does, and what is in its way.
type upgradeExplanation struct {
	// Upgrade is nil if none is wanted, and all hosts run the same.
	Upgrade  *people.Brief     `json:"upgrade,omitempty"`
	Findings []finding.Finding `json:"findings"`
}

func explainUpgrade(ctx context.Context, c client.Reader, out io.Writer, format string) error {
	u, err := gatherUpgrade(ctx, c, time.Now())
	if err != nil {
		return err
	}
	e := upgradeExplanation{Upgrade: u.Brief(), Findings: append([]finding.Finding{}, standing.Upgrades(u)...)}
	if err := e.print(out, format); err != nil {
		return err
	}
	for _, f := range e.Findings {
		if f.Severity != finding.Note {
			return exitWith(command.ExitAttention)
		}
	}
	return nil
}

func (e upgradeExplanation) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, e)
	}
	var text strings.Builder
	if e.Upgrade == nil {
		text.WriteString("no upgrade is wanted, and all hosts run the same release\n")
	} else {
		fmt.Fprintf(&text, "%s\n", e.Upgrade.Sentence())
	}
	writeFindings(&text, e.Findings)
	_, err := io.WriteString(out, text.String())
	return err
}
