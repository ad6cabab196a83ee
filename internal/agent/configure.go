package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func newConfigure(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "configure",
		Short: "Write the machine configuration that this host is to have",
		Long: `Write files, units, keys and kernel arguments of the machine configuration that
this host has, or is on its way to, and put back what an earlier one has replaced.
The agent decides which one that is, and tells the units afterwards. It has this
command run by holdfast-configure.service, which may write where the agent may not.

A second run changes nothing. On a host that is on no way, a run puts right what
somebody changed by hand.`,
		Example: `  # put right what somebody changed on this host
  sudo systemctl restart holdfast-configure.service

  # what the last run has written, or why it could not
  cat /run/holdfast/configure.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("configure changes this host: run it as root")}
			}
			name, err := hostconfig.NewWriter("/").Write(cmd.Context())
			if told := hostconfig.WriteResult("/", name, err); told != nil {
				return errors.Join(err, told)
			}
			if err != nil {
				return err
			}
			said := "this host has " + name
			if name == "" {
				said = "this host has no machine configuration"
			}
			_, err = fmt.Fprintln(streams.Out, said)
			return err
		},
	}
}
