package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func newPatch(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "patch",
		Short: "Fetch or install the updates of this host's distribution, as the agent asks",
		Long: `Fetch the updates of the distribution with apt-get or dnf, or install them, as the
agent has asked for in /var/lib/holdfast/updates/request.json. The agent has this
command run by holdfast-patch.service once somebody wants updates by
'holdfast host patch', and the host has its turn. It removes no package, keeps files
of the configuration that somebody has changed, and boots nothing. On two control
planes it leaves alone what etcd runs on.

How it ended is in /var/lib/holdfast/updates/record.json. A run that was cut off is
begun again, and first completes what dpkg has left. Once what was asked for is over,
a further run changes nothing.`,
		Example: `  # what was installed and left out, or why it failed
  sudo jq . /var/lib/holdfast/updates/record.json

  # what the package manager said
  sudo journalctl -u holdfast-patch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("patch changes this host: run it as root")}
			}
			s, err := readSite()
			if err != nil {
				return err
			}
			p := updates.ThisHost(s.Role.ControlPlane() && s.Topology().Fencing)
			if err := p.Patch(cmd.Context()); err != nil {
				return err
			}
			record, err := p.Record()
			if err != nil {
				return err
			}
			said := record.Error
			if said == "" {
				said = fmt.Sprintf("%s: %s", record.Phase, record.Result())
			}
			_, err = fmt.Fprintln(streams.Out, said)
			return err
		},
	}
}
