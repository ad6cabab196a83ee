package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	agentparts "github.com/holdfast/holdfast/internal/agent/parts"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// bringLimit bounds a run; holdfast-bring.service ends it a minute later.
const bringLimit = 4 * time.Minute

func newBring(streams command.Streams) *cobra.Command {
	part := ""
	cmd := &cobra.Command{
		Use:   "bring",
		Short: "Bring a part of this program's release to the cluster",
		Long: `Bring a part of the release to the cluster of which this program is one: objects (roles,
kinds, policies, the pod network, the cluster's DNS), kube-proxy (its image) or operator
(its Deployment). Objects that people change while the cluster lives stay as they are:
those of config.openshift.io, secrets, the IngressController, a Corefile of CoreDNS that
somebody has changed. Objects that an earlier
release brought and that this one does not have are deleted, but neither kinds nor
namespaces.

While an upgrade is under way, holdfast-bring.service of one control plane runs this
command of the release that is brought, by its path in /opt/holdfast/releases. A run
that was cut off is begun again. The last write is in ConfigMap
kube-system/holdfast-release: which release has brought which part.`,
		Example: `  # which release has brought which part
  kubectl -n kube-system get configmap holdfast-release -o yaml

  # bring the objects of the current release by hand
  sudo /opt/holdfast/releases/current/usr/local/bin/holdfast-agent bring --part objects

  # what the unit said
  sudo journalctl -u holdfast-bring`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("bring reads this host's access to the cluster: run it as root")}
			}
			s, err := readSite()
			if err != nil {
				return err
			}
			if !s.Role.ControlPlane() {
				return &command.UsageError{Err: errors.New("this host is a worker: run it on a control plane")}
			}
			ctx, stop := context.WithTimeout(cmd.Context(), bringLimit)
			defer stop()
			left, err := agentparts.BringHere(ctx, s, part)
			if err != nil {
				return err
			}
			for _, r := range left {
				if _, err := fmt.Fprintf(streams.Out, "left as it is, since somebody has changed it: %s\n", r); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(streams.Out, "brought "+part)
			return err
		},
	}
	cmd.Flags().StringVar(&part, "part", "", "the part: "+strings.Join(parts.Order(), ", "))
	_ = cmd.MarkFlagRequired("part") // the flag was made above
	return cmd
}
