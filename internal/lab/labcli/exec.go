package labcli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newShell(streams command.Streams, name *string) *cobra.Command {
	return &cobra.Command{
		Use:     "shell HOST",
		Short:   "Open a shell on a host",
		Example: "  holdfast lab shell cp-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return execOnHost(cmd.Context(), streams, *name, args[0], []string{"bash", "-l"})
		},
	}
}

func newExec(streams command.Streams, name *string) *cobra.Command {
	enter := false
	cmd := &cobra.Command{
		Use:     "exec HOST -- COMMAND...",
		Short:   "Run a command on a host",
		Example: "  holdfast lab exec cp-1 -- systemctl --failed",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if enter {
				return enterHost(cmd, streams, *name, args[0], args[1:])
			}
			return execOnHost(cmd.Context(), streams, *name, args[0], args[1:])
		},
	}
	cmd.Flags().BoolVar(&enter, "enter", false, "enter the host directly, outside its control groups: only for short commands that read and leave nothing running")
	return cmd
}

func enterHost(cmd *cobra.Command, streams command.Streams, name, hostName string, line []string) error {
	b, c, err := openLab(cmd, name, hostName)
	if err != nil {
		return err
	}
	return b.Enter(cmd.Context(), c, hostName, line, lab.ExecStreams{In: streams.In, Out: streams.Out, Err: streams.Err})
}

func newLogs(streams command.Streams, name *string) *cobra.Command {
	var unit string
	follow, lines := false, "200"
	cmd := &cobra.Command{
		Use:   "logs HOST",
		Short: "Show the journal of a host",
		Example: `  holdfast lab logs cp-1 -u kubelet -f
  holdfast lab logs cp-2 --lines all`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			line := []string{"journalctl", "--no-pager", "--lines", lines}
			if unit != "" {
				line = append(line, "--unit", unit)
			}
			if follow {
				line = append(line, "--follow")
			}
			return execOnHost(cmd.Context(), streams, *name, args[0], line)
		},
	}
	cmd.Flags().StringVarP(&unit, "unit", "u", "", "show only this unit")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they arrive")
	cmd.Flags().StringVar(&lines, "lines", lines, "number of last lines, or all")
	return cmd
}

func execOnHost(ctx context.Context, streams command.Streams, name, hostName string, line []string) error {
	if err := needRoot(); err != nil {
		return err
	}
	b, err := lab.Open(labRoot(), name)
	if err != nil {
		return err
	}
	h, err := hostOf(b, hostName)
	if err != nil {
		return err
	}
	return b.Exec(ctx, h, line, lab.ExecStreams{In: streams.In, Out: streams.Out, Err: streams.Err, TTY: command.IsTerminal(streams.In) && command.IsTerminal(streams.Out)})
}

func newKubectl(streams command.Streams, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl -- ARGS...",
		Short: "Run kubectl against a lab's cluster, through its API address",
		Example: `  holdfast lab kubectl -- get nodes -o wide
  holdfast lab kubectl -- -n kube-system get pods`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, c, err := openLab(cmd, *name)
			if err != nil {
				return err
			}
			return b.Kubectl(cmd.Context(), c, args, lab.ExecStreams{In: streams.In, Out: streams.Out, Err: streams.Err})
		},
	}
}

func newKubeconfig(streams command.Streams, name *string) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of a kubeconfig that works from this machine",
		Example: "  export KUBECONFIG=$(holdfast lab kubeconfig)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, c, err := openLab(cmd, *name)
			if err != nil {
				return err
			}
			path, err := b.WriteKubeconfig(cmd.Context(), c)
			if err != nil {
				return err
			}
			_, err = io.WriteString(streams.Out, path+"\n")
			return err
		},
	}
}
