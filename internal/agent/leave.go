package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/ownplace"
)

// leaveLimit is the longest time for which a shutdown waits until pods have moved.
// Pods get 30 s to end, unless they say otherwise; connections end before.
const leaveLimit = 25 * time.Second

func newLeave(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Have other hosts take the pods of this host, which shuts down",
		Long: `Have other hosts take the pods of this host, before anything of it stops. systemd runs
this command as the first step of a shutdown or reboot that somebody has begun by hand
(holdfast-leave.service). It asks the operator to drain the host, as 'holdfast host
drain' does, and waits at most 25 seconds. It does not wait where no other host takes
pods, where the host is empty already, and where the API does not know it.

Then it asks the agent to do what it does before boots of its own: other hosts get the
virtual IPs and etcd's lead, and the API server ends, within 16 seconds. The agent does so only while
systemd carries a shutdown out and the cluster carries on without this host. Where another
control plane shuts down too, neither waits for anything.

While Pacemaker is in maintenance it does not stop etcd. The agent then has etcd of this
host stopped in its place, if the other control plane is healthy: etcd leaves in order,
and the other one goes on.

Whatever happens, the shutdown goes on. After the boot the agent has the host take pods
again; where the shutdown is cancelled and the agent still runs, it takes back what it
gave up.

While the host does not shut down, this command does nothing.`,
		Example: `  # what became of the pods and the virtual IPs in the shutdown before this boot
  sudo journalctl --boot=-1 --unit=holdfast-leave`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			said, err := leave(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(streams.Out, said)
			return err
		},
	}
}

func leave(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	if down, err := machineconfig.GoesDown(limited); err != nil || !down {
		return "the host does not shut down: nothing to do", err
	}
	access := ownplace.Access()
	if access == "" {
		return "this host belongs to no cluster yet", nil
	}
	api, err := kube.Open(access)
	if err != nil {
		return "", err
	}
	boot, _, err := observe.Boot()
	if err != nil {
		return "", err
	}
	name, err := host.Name()
	if err != nil {
		return "", err
	}
	said, waits := machineconfig.Leaver{API: api, Node: name, Boot: boot, Down: machineconfig.GoesDown, Pause: time.Second / 2}.Leave(limited)
	if waits {
		said += "; " + machineconfig.AskToDepart(ctx, state.AgentSocket)
	}
	return said, nil
}
