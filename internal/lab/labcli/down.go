package labcli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newDown(streams command.Streams, name *string) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove a lab without a trace",
		Long: `Remove a lab: its hosts and their disks, networks, mounts, processes and files,
and restore the kernel settings that its hosts changed. Also removes an incomplete
lab. Built images stay in the cache.`,
		Example: `  holdfast lab down
  holdfast lab down --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := lab.CheckName(*name); err != nil {
				return &command.UsageError{Err: err}
			}
			if err := needRoot(); err != nil {
				return err
			}
			names := []string{*name}
			if all {
				var err error
				if names, err = lab.List(labRoot()); err != nil {
					return err
				}
			}
			for _, n := range names {
				if err := lab.Down(cmd.Context(), labRoot(), n); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(streams.Err, "lab %s is gone\n", n); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every lab")
	return cmd
}

func newList(streams command.Streams, _ *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List the labs on this machine", Args: cobra.NoArgs,
		Example: "  holdfast lab list -o json",
		RunE: func(*cobra.Command, []string) error {
			names, err := lab.List(labRoot())
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, names)
			}
			for _, n := range names {
				if _, err := fmt.Fprintln(streams.Out, n); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.OutputFlag(cmd, &output)
	return cmd
}
