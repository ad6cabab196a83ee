package labcli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// powerActions describes the actions on a host's power.
const powerActions = `  on        press the power button of a host that is off
  cut       pull the plug of the host; its BMC keeps power
  reset     cut and switch on again
  shutdown  ask the host to shut down, as the power button does
  ac-loss   no mains power: host and BMC are off
  ac-back   mains power is back; the host stays off`

var powerActionNames = []lab.PowerAction{
	lab.ActionOn, lab.ActionCut, lab.ActionReset, lab.ActionShutdown, lab.ActionACLoss, lab.ActionACBack,
}

func newPower(streams command.Streams, name *string) *cobra.Command {
	bmc := false
	cmd := &cobra.Command{
		Use:   "power HOST ACTION",
		Short: "Switch a host, by hand or through its BMC",
		Long: "Switch a host. The actions are:\n\n" + powerActions + `

With --bmc the action is a Redfish reset type, such as ForceOff, and goes to
the host's BMC over the fencing network.`,
		Example: `  holdfast lab power cp-2 cut
  holdfast lab power cp-2 on
  holdfast lab power --bmc cp-2 ForceRestart`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !bmc && !slices.Contains(powerActionNames, lab.PowerAction(args[1])) {
				return &command.UsageError{Err: fmt.Errorf("action %q: there is no such action\nsee 'holdfast lab power --help'", args[1])}
			}
			b, c, err := openLab(cmd, *name, args[0])
			if err != nil {
				return err
			}
			h, err := hostOf(b, args[0])
			if err != nil {
				return err
			}
			if bmc {
				return b.Reset(cmd.Context(), h, redfish.ResetType(args[1]))
			}
			if err := c.Power(cmd.Context(), lab.PowerRequest{Host: h.Name, Action: lab.PowerAction(args[1])}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Err, "%s: %s done\n", h.Name, args[1])
			return err
		},
	}
	cmd.Flags().BoolVar(&bmc, "bmc", false, "send a Redfish reset type to the host's BMC")
	return cmd
}
