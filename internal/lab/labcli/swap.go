package labcli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
)

func newSwap(streams command.Streams, name *string) *cobra.Command {
	var newAddress bool
	cmd := &cobra.Command{
		Use:   "swap HOST",
		Short: "Put another machine in the place of a control plane that is off",
		Long: `Put another machine in the place of a control plane that is off: with empty disks,
another UUID, serial number and BMC. The old machine stays in the lab, off and with its
disks and faults, as HOST-old1; switch it on to see what it does. The new one has no
Ignition config until 'lab ignition' gives it one. The password of the new BMC goes to
a file whose path is printed. 'lab up' with the flags with which the lab was made
completes an interrupted swap.`,
		Example: `  holdfast lab fault ac-loss cp-2
  holdfast lab swap cp-2
  holdfast lab ignition cp-2 cp-2.ign && holdfast lab power cp-2 on
  holdfast lab power cp-2-old1 on`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := openLab(cmd, *name, args[0]); err != nil {
				return err
			}
			cache, err := release.CacheDir()
			if err != nil {
				return err
			}
			builder := &lab.Builder{Root: labRoot(), Cache: cache, Launch: lab.SelfLauncher, Log: streams.Err}
			b, err := builder.Swap(cmd.Context(), *name, lab.Swap{Host: args[0], NewAddress: newAddress})
			if err != nil {
				return err
			}
			m, err := machineOf(b, args[0])
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(streams.Out, "%s is another machine, and off\n", m.Name); err != nil {
				return err
			}
			return m.print(streams.Out)
		},
	}
	cmd.Flags().BoolVar(&newAddress, "new-address", false, "the new machine has other addresses than the old one")
	return cmd
}

func newIgnition(streams command.Streams, name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "ignition HOST FILE",
		Short: "Give a host the Ignition config that its first boot reads",
		Long: `Give a host that was never installed the Ignition config that its first boot reads,
in place of the one that it has: for example the join file of 'holdfast host replace'
or 'holdfast host add'. A spare control plane has none before.`,
		Example: `  holdfast lab ignition cp-2 cp-2.ign`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, _, err := openLab(cmd, *name, args[0])
			if err != nil {
				return err
			}
			data, err := os.ReadFile(args[1])
			if err != nil {
				return &command.UsageError{Err: err}
			}
			if err := b.GiveIgnition(args[0], data); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Err, "%s reads %s at its first boot\n", args[0], args[1])
			return err
		},
	}
}
