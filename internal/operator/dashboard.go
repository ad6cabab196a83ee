package operator

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/standing"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/report/dashboard"
	"github.com/holdfast/holdfast/internal/report/status"
)

// newDashboard makes a verb of its own, so that the page runs in a pod of its
// own, with an account that may only read.
func newDashboard(streams command.Streams) *cobra.Command {
	var kubeconfig, address string
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page that shows the state of this cluster",
		Long: `Serve a live page that shows what 'holdfast status' shows, until the process is
ended. It is read-only and shows no secrets. It serves HTTP without encryption,
inside the cluster.`,
		Example: `  # what the Deployment openshift-etcd/holdfast-dashboard runs
  holdfast-operator dashboard

  # on a control plane, for this host alone
  holdfast-operator dashboard --kubeconfig /etc/kubernetes/admin.conf --address 127.0.0.1:8017`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveDashboard(cmd.Context(), streams, kubeconfig, address)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "access to the cluster; empty for that of this pod")
	cmd.Flags().StringVar(&address, "address", fmt.Sprintf(":%d", render.DashboardPort), "where to serve the page")
	return cmd
}

func serveDashboard(ctx context.Context, streams command.Streams, kubeconfig, address string) error {
	cfg, err := kube.Access{Kubeconfig: kubeconfig}.Config()
	if err != nil {
		return err
	}
	look, err := lookAt(cfg)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	_, _ = fmt.Fprintf(streams.Err, "the page is at http://%s/\n", l.Addr())
	return dashboard.New(look).Serve(ctx, l)
}

func lookAt(cfg *rest.Config) (func(context.Context) (standing.View, error), error) {
	api, err := status.OpenAPI(cfg)
	if err != nil {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	g := &status.Gatherer{Sources: []status.Source{api}, Now: time.Now}
	return func(ctx context.Context) (standing.View, error) { return standing.Describe(g.Gather(ctx)), nil }, nil
}
