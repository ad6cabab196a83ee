package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func newFetch(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "fetch",
		Short: "Bring the releases that are wanted to this host, as the agent asks",
		Long: `Bring the releases to this host that the agent has named in
/run/holdfast/fetch/request.json: from the host's disk, a folder, or a registry. Each
byte is compared with the release's digest. A release lies in
/var/lib/holdfast/releases, its programs in /opt/holdfast/releases beside those of
other releases, and its images in containerd. Nothing is switched, and nothing is
restarted. Releases that nobody wants, that do not run and that are no way back are
taken away.

The agent has this command run by holdfast-fetch.service once an upgrade is wanted. A
run that was cut off goes on where it was.`,
		Example: `  # how far it is, or why it failed
  jq . /run/holdfast/fetch/state.json

  # what it said
  sudo journalctl -u holdfast-fetch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("fetch changes this host: run it as root")}
			}
			s, err := readSite()
			if err != nil {
				return err
			}
			controlPlane := s.Role.ControlPlane()
			if err := releases.NewFetcher(controlPlane, controlPlane && s.Topology().Fencing).Run(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(streams.Out, "the wanted releases lie here whole")
			return err
		},
	}
}
