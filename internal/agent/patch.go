package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/updates"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

func newPatch(streams command.Streams) *cobra.Command {
	atBoot := false
	cmd := &cobra.Command{
		Use:   "patch",
		Short: "Fetch or install the updates of this host's distribution, as the agent asks",
		Long: `Fetch the updates of the distribution with apt-get or dnf, or install them, as the
agent has asked for in /var/lib/holdfast/updates/request.json. The agent has this
command run by holdfast-patch.service once somebody wants updates by
'holdfast host patch', and the host has its turn. It removes no package, keeps files
of the configuration that somebody has changed, and boots nothing. On two control
planes it leaves alone what etcd runs on, unless somebody wants that too
('holdfast host patch --held'): then it brings it to the disk, and holdfast-held.service
has it changed by --at-boot at the boot that the agent orders, before Corosync and
Pacemaker start.

How it ended is in /var/lib/holdfast/updates/record.json. A run that was cut off is
begun again, and first completes what dpkg has left. Once what was asked for is over,
a further run changes nothing.`,
		Example: `  # what was installed and left out, or why it failed
  sudo jq . /var/lib/holdfast/updates/record.json

  # what the package manager said
  sudo journalctl -u holdfast-patch -u holdfast-held`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("patch changes this host: run it as root")}
			}
			record, err := patch(cmd.Context(), atBoot)
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
	cmd.Flags().BoolVar(&atBoot, "at-boot", false, "change what etcd runs on, if this boot was ordered for it; Corosync and Pacemaker must not run")
	return cmd
}

func patch(ctx context.Context, atBoot bool) (decide.Record, error) {
	if atBoot {
		p := updates.ThisHostAtBoot()
		err := p.AtBoot(ctx)
		record, unread := p.Record()
		return record, errors.Join(err, unread)
	}
	s, err := readSite()
	if err != nil {
		return decide.Record{}, err
	}
	p := updates.ThisHost(s.Role.ControlPlane() && s.Topology().Fencing, prepareBoot)
	err = p.Patch(ctx)
	record, unread := p.Record()
	return record, errors.Join(err, unread)
}

// prepareBoot writes and enables the unit that changes what etcd runs on at the next boot.
func prepareBoot(ctx context.Context) error {
	return host.EnableUnit(ctx, decide.BootUnit, renderhost.HeldUnits())
}
