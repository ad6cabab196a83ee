package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
)

// parachuteFlags choose another part than the way back.
type parachuteFlags struct{ toTurn, pods, raise, files bool }

func newParachute(streams command.Streams) *cobra.Command {
	var f parachuteFlags
	cmd := &cobra.Command{
		Use:   "parachute",
		Short: "Return this host to its old release, if the new one is not healthy",
		Long: `Return this host to the release that it comes from, if it has to. While the host is on
its way to another release, holdfast-parachute.timer runs this command of the old
release every 15 seconds, and each boot runs it once. It decides by the journal in
` + upgrade.Folder + `, and only goes back: it ends the daemons, has the link of
the programs lead to the old release, and starts the daemons of that one. A host
returns that was not accepted five minutes after its switch, that boots for the second
time before it was accepted, or whose agent was killed three times because it hung. A
host that serves stays while no other one is known to serve.

On a host that is on no way it does nothing. It changes the host: run it as root.

With --switch it does what holdfast-switch.service runs: it has the link lead to the
new release, if the journal says that this is the moment. With --pods it does what
kubelet runs before it starts: it writes the static pods of the release that is chosen,
and moves checkpoints of kubelet away that a power cut has torn: kubelet does not start
with them.
With --raise it does what holdfast-raise.service runs after the commit: kubelet, which
stayed that of the old release, becomes that of the release that is chosen. With --files
it changes nothing: it says which files of this host its release brings. The agents of both
releases are asked that on a way between them.`,
		Example: `  # does the host have to go back? if so, go
  sudo holdfast-agent parachute

  # what it did
  sudo journalctl --unit=holdfast-parachute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("parachute changes this host: run it as root")}
			}
			said, err := f.run(cmd.Context(), streams.Err)
			if said != "" {
				if _, err := fmt.Fprintln(streams.Out, said); err != nil {
					return err
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.toTurn, "switch", false, "switch to the release that the journal names")
	cmd.Flags().BoolVar(&f.pods, "pods", false, "write the static pods of the release that is chosen")
	cmd.Flags().BoolVar(&f.raise, "raise", false, "let kubelet be that of the release that is chosen")
	cmd.Flags().BoolVar(&f.files, "files", false, "say as JSON which files of this host this release brings")
	cmd.MarkFlagsMutuallyExclusive("switch", "pods", "raise", "files")
	return cmd
}

// run does what the flags choose, and says what it did. It logs that no event can be written.
func (f parachuteFlags) run(ctx context.Context, log io.Writer) (said string, err error) {
	if f.pods {
		return upgrade.BeforeKubelet()
	}
	if f.raise {
		return "", upgrade.RaiseThisHost()
	}
	s, err := readSite()
	if err != nil {
		return "", err
	}
	if f.files {
		out, err := upgrade.OfThisRelease(s)
		return string(out), err
	}
	here := shelved{releases.ThisHost(s.Role.ControlPlane())}
	if f.toTurn {
		return "", upgrade.SwitchThisHost(ctx, upgrade.KindOf(s), here)
	}
	name, err := host.Name()
	if err != nil {
		return "", err
	}
	events := eventlog.OnThisHost(state.ParachuteEvents, time.Now, command.JournalLogger(log))
	err = events.During(ctx, func(ctx context.Context) error {
		said, err = upgrade.NewParachute(s, name, here, events.Append).Run(ctx)
		return err
	})
	return said, err
}

// shelved is the releases that lie on this host, for a program that fetches none.
type shelved struct{ releases.Host }

// Fetching implements upgrade.Releases.
func (shelved) Fetching() (how, failed string) { return "", "" }
