package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/labprogram"
)

// newLab hands whatever comes after `lab` over to holdfast-lab: this program
// holds nothing of the lab.
func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "lab",
		Short:              "A whole site on this machine: bring it up, look at it, break it, throw it away",
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
	// holdfast-lab offers its own --help, which says more.
	cmd.Flags().BoolP("help", "h", false, "")
	_ = cmd.Flags().MarkHidden("help") // it is there
	return cmd
}

// helpOfLab turns `help lab VERB` into `lab help VERB`: the verbs of the lab are
// known to holdfast-lab alone.
func helpOfLab(args []string) []string {
	if len(args) >= 2 && args[0] == "help" && args[1] == "lab" {
		return append([]string{"lab", "help"}, args[2:]...)
	}
	return args
}

// labPlace asks holdfast-lab where the things of a lab are.
func labPlace(ctx context.Context, name string) (labprogram.Place, error) {
	p, err := labprogram.Beside()
	if err != nil {
		return labprogram.Place{}, err
	}
	return p.Place(ctx, name)
}
