package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/labprogram"
)

// newLab passes the arguments after `lab` to holdfast-lab: this program
// contains nothing of the lab.
func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "lab",
		Short:              "A whole site on this machine: bring it up, inspect it, break it, remove it",
		Example:            "  holdfast lab --help",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := labprogram.Beside()
			if err != nil {
				return err
			}
			return p.HandOver(args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, last string) ([]cobra.Completion, cobra.ShellCompDirective) {
			p, err := labprogram.Beside()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			list, directive, err := p.Complete(cmd.Context(), append(slices.Clip(args), last)...)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return list, cobra.ShellCompDirective(directive)
		},
	}
	// holdfast-lab has its own --help with more text.
	cmd.Flags().BoolP("help", "h", false, "")
	_ = cmd.Flags().MarkHidden("help") // the lab's own help lists it
	return cmd
}

// helpOfLab turns `help lab VERB` into `lab help VERB`: only holdfast-lab knows
// the verbs of the lab.
func helpOfLab(args []string) []string {
	if len(args) >= 2 && args[0] == "help" && args[1] == "lab" {
		return append([]string{"lab", "help"}, args[2:]...)
	}
	return args
}
