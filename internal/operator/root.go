// Package operator is the `holdfast-operator` command: the controllers of a
// cluster, and the Jobs by which they reach its hosts. It only composes other
// packages and holds no rule of its own.
package operator

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams command.Streams, args []string) int {
	return command.Run(ctx, newRoot(streams), streams, args) //nolint:contextcheck // a command gets its context when it runs
}

func newRoot(streams command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast-operator",
		Short: "Keep a cluster in its installed state",
		Long: `holdfast-operator runs in a cluster. It keeps the routers that IngressControllers
ask for, the virtual IPs that the Infrastructure object asks for, and gives hosts the
configuration of their MachineConfigPool:

  kubectl -n openshift-ingress-operator get ingresscontrollers
  kubectl get clusteroperator network -o yaml
  kubectl get machineconfigpools

In a cluster with two control planes it also has the hosts set up so that either
survives the loss of the other, step by step, with Jobs in namespace
openshift-etcd, and reports the progress in the object etcd/cluster:

  kubectl get etcds.operator.openshift.io cluster -o yaml
  kubectl -n openshift-etcd get jobs`,
	}
	root.AddCommand(newRun(streams), newJob(streams), newDashboard(streams), newVersion(streams))
	return root
}
