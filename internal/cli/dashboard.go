package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/report/dashboard"
)

// dashboardFlags holds the flags of `holdfast dashboard`.
type dashboardFlags struct {
	place place.Flags
	port  uint16
}

func newDashboard(streams Streams) *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show `holdfast status` as a live page on this machine",
		Long: `Serves what 'holdfast status' shows as a live page on this machine's loopback
address, and prints its URL. It reads the cluster as 'holdfast status' does: through
a kubeconfig, from hosts, which need no API, or from a lab. The page is read-only.
Ctrl-C ends it.

The cluster serves the same page itself, behind a Service:

  kubectl -n openshift-etcd port-forward service/holdfast-dashboard 8080:80`,
		Example: `  holdfast dashboard
  holdfast dashboard --kubeconfig store-17/auth/kubeconfig --port 8017
  holdfast dashboard --lab default`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, streams) },
	}
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	f.place.DeclareHosts(cmd)
	cmd.Flags().Uint16Var(&f.port, "port", 0, "port on the loopback address; 0 for any that is free")
	return cmd
}

// loopback lists the host names that a request for the page may use.
var loopback = []string{"127.0.0.1", "localhost"}

func (f *dashboardFlags) run(cmd *cobra.Command, streams Streams) error {
	if err := f.place.Check(); err != nil {
		return err
	}
	look, err := newViewReader(cmd.Context(), &f.place, nil)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort(loopback[0], fmt.Sprint(f.port)))
	if err != nil {
		return fmt.Errorf("serve the page (--port picks another port): %w", err)
	}
	if _, err := fmt.Fprintf(streams.Out, "http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	return serveDashboard(cmd.Context(), look, l)
}

func serveDashboard(ctx context.Context, look viewReader, l net.Listener) error {
	return dashboard.New(look, loopback...).Serve(ctx, l)
}
