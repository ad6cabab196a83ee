package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/operator/twonode"
	"github.com/holdfast/holdfast/internal/operator/upgrade"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/render/router"
)

// options holds the flags of `holdfast-operator run`.
type options struct {
	kubeconfig string
	health     string
	metrics    string
	etcdPKI    string
}

func newRun(streams command.Streams) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers of this cluster",
		Long: `Run the controllers until the process is ended. Of several that run in one
cluster one works; the others wait until its lease ends.`,
		Example: `  # what the Deployment openshift-etcd/holdfast-operator runs
  holdfast-operator run

  # on a control plane, beside the cluster's own
  holdfast-operator run --kubeconfig /etc/kubernetes/admin.conf --health-address 127.0.0.1:10271 --metrics-address 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), streams)
		},
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "access to the cluster; empty for that of this pod")
	cmd.Flags().StringVar(&o.health, "health-address", fmt.Sprintf("127.0.0.1:%d", render.HealthPort), "where to answer /healthz and /readyz")
	cmd.Flags().StringVar(&o.metrics, "metrics-address", fmt.Sprintf("127.0.0.1:%d", render.MetricsPort), "where to answer /metrics; 0 for nowhere")
	cmd.Flags().StringVar(&o.etcdPKI, "etcd-pki", "", "folder with ca.crt, and "+render.EtcdPair+" or healthcheck-client.{crt,key}, for etcd (default "+render.EtcdFolder+")")
	return cmd
}

func (o options) run(ctx context.Context, streams command.Streams) error {
	logger := logr.FromSlogHandler(slog.NewTextHandler(streams.Err, nil))
	ctrl.SetLogger(logger)
	cfg, err := o.access()
	if err != nil {
		return err
	}
	two, err := isTwoNode(ctx, cfg)
	if err != nil {
		return err
	}
	manager, err := newManager(cfg, managing{health: o.health, metrics: o.metrics, twoNode: two}, logger)
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	if two {
		if err := o.addTwoNode(manager); err != nil {
			return err
		}
	}
	if err := errors.Join(addGuards(manager), addInfrastructure(manager), addIngress(manager), o.addMachineConfig(manager, two), o.addUpgrade(manager, two), addAlerts(manager, two)); err != nil {
		return err
	}
	if err := manager.Add(&topologyWatch{manager, two}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func (o options) addTwoNode(manager ctrl.Manager) error {
	members := &twonode.Members{Members: etcd.Members{Identity: identity(o.etcdPKI, render.EtcdFolder, render.FormerEtcdFolder)}}
	return addTwoNode(manager, members.Ask, members.Identity.CA)
}

// identity returns the files with which etcd is asked: the operator's own pair.
// The pod of an earlier release has only kubeadm's folder, until its Deployment
// is that of this release.
func identity(given, own, former string) etcd.Identity {
	folder := cmp.Or(given, own)
	if _, err := os.Stat(own); given == "" && errors.Is(err, fs.ErrNotExist) {
		folder = former
	}
	pair := filepath.Join(folder, render.EtcdPair)
	out := etcd.Identity{CA: filepath.Join(folder, render.EtcdAuthorities), Cert: pair, Key: pair}
	if _, err := os.Stat(filepath.Join(folder, formerClient+".crt")); err == nil {
		out.Cert, out.Key = filepath.Join(folder, formerClient+".crt"), filepath.Join(folder, formerClient+".key")
	}
	return out
}

// formerClient is kubeadm's client of etcd.
const formerClient = "healthcheck-client"

// asker asks etcd for the state of its members.
type asker func(context.Context, []twonode.Host) map[string]handover.Member

func addTwoNode(manager ctrl.Manager, ask asker, authorities string) error {
	record, err := upgrade.Record(manager.GetRESTMapper(), manager.GetAPIReader())
	if err != nil {
		return err
	}
	controller := &twonode.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Etcd: ask, CABundle: authorities, Record: record, Now: time.Now,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of two nodes: %w", err)
	}
	return addHealth(manager)
}

// access returns the way to the cluster's API. From a pod it asks its own host's
// server first: what an operator has to mend may be the way to the others.
func (o options) access() (*rest.Config, error) {
	if o.kubeconfig != "" {
		return kube.Access{Kubeconfig: o.kubeconfig, Limit: kube.LoopLimit}.Config()
	}
	servers := &kube.Servers{Limit: kube.LoopLimit, Addresses: func() []string {
		service := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
		return []string{ownAPIServer, "https://" + service}
	}}
	return servers.Config()
}

// ownAPIServer is this host's API server, whose certificate is also for its
// loopback address.
const ownAPIServer = "https://127.0.0.1:6443"

// newScheme returns the kinds that controllers read and write.
func newScheme() (*runtime.Scheme, error) {
	return kube.NewScheme(router.InstallHosts, mcfgv1.Install, coordinationv1.AddToScheme, discoveryv1.AddToScheme)
}

// managing holds the settings of a manager.
type managing struct {
	health, metrics string
	// twoNode is true if it may see what two control planes are set up with.
	twoNode bool
}

// leaseDuration is the time for which a lost operator keeps the next one waiting,
// counted from the next one's start. renewDeadline is the time for which an
// operator that cannot reach the API stays leader. A take-over of etcd takes less
// (docs/RECOVERY.md), so a leader on the survivor stays leader. While it cannot
// write it does no harm.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 8 * time.Second
	retryPeriod   = time.Second
)

func newManager(cfg *rest.Config, m managing, logger logr.Logger) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Logger: logger,
		Cache: cache.Options{ByObject: held(m.twoNode)},
		// Tests run several managers in one process.
		Controller:                    ctrlconfig.Controller{SkipNameValidation: new(true)},
		Metrics:                       metricsserver.Options{BindAddress: m.metrics},
		HealthProbeBindAddress:        m.health,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		LeaderElection:                true,
		LeaderElectionID:              render.Name,
		LeaderElectionNamespace:       render.Namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		manager.AddHealthzCheck("ping", healthz.Ping),
		manager.AddReadyzCheck("cache", func(r *http.Request) error { return synced(r.Context(), manager.GetCache()) }),
	)
	return manager, err
}

// synced returns nil once the cluster was read.
func synced(ctx context.Context, c cache.Cache) error {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if !c.WaitForCacheSync(ctx) {
		return errors.New("the cluster was not read yet")
	}
	return nil
}
