// Command flanneld joins the pods of all hosts into one network. It is built
// on flannel's packages with the two backends that a site on its own switch
// needs, vxlan and host-gw, and takes its subnets from the Kubernetes nodes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"k8s.io/klog/v2"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	opts, err := parse(args, os.Stderr)
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, opts); err != nil {
		klog.ErrorS(err, "flanneld stops")
		return 1
	}
	return 0
}

// serve sets the network up and keeps it until the context ends.
func serve(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes, err := kube.NewSubnetManager(ctx, "", o.kubeconfig, o.annotationPrefix, o.netConf, true)
	if err != nil {
		return fmt.Errorf("read the nodes' subnets: %w", err)
	}
	conf, err := nodes.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.netConf, err)
	}
	link, err := findLink(ctx, nodes, conf, o)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel() // before Wait: the workers end with the context
	network, err := register(ctx, &workers, nodes, conf, link)
	if err != nil {
		return err
	}
	if err := setRules(ctx, conf, network, o); err != nil {
		return err
	}
	lease := network.Lease()
	if err := nodes.HandleSubnetFile(o.subnetFile, conf, o.masquerade, lease.Subnet, lease.IPv6Subnet, network.MTU()); err != nil {
		return fmt.Errorf("write %s: %w", o.subnetFile, err)
	}
	workers.Go(func() { network.Run(ctx) })
	completeLease(ctx, nodes, network, &workers)
	<-ctx.Done()
	return nil
}

// completeLease tells the API that this node's network is up. The API may be
// out of reach for a while, for instance while a control plane fails over;
// the network itself works meanwhile, so it is tried until it succeeds.
func completeLease(ctx context.Context, nodes subnet.Manager, network backend.Network, workers *sync.WaitGroup) {
	retry := time.NewTicker(2 * time.Second)
	defer retry.Stop()
	for {
		err := nodes.CompleteLease(ctx, network.Lease(), workers)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "cannot mark the node's network as available yet")
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
	}
}

// findLink returns the interface that leads to the other hosts: the first of
// the named ones that exists, else the one with the default route. An address
// that an administrator fixed on the Node object wins over the interface's.
func findLink(ctx context.Context, nodes subnet.Manager, conf *subnet.Config, o options) (*backend.ExternalInterface, error) {
	family, err := ipmatch.GetIPFamily(conf.EnableIPv4, conf.EnableIPv6)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.netConf, err)
	}
	var public ipmatch.PublicIPOpts
	public.PublicIP, public.PublicIPv6 = nodes.GetStoredPublicIP(ctx)
	names := o.interfaces
	if len(names) == 0 {
		names = []string{""}
	}
	var errs []error
	for _, name := range names {
		link, err := ipmatch.LookupExtIface(name, "", "", family, public)
		if err == nil && link != nil {
			return link, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("find the interface to the other hosts among %q: %w", names, errors.Join(errs...))
}

func register(ctx context.Context, workers *sync.WaitGroup, nodes subnet.Manager, conf *subnet.Config, link *backend.ExternalInterface) (backend.Network, error) {
	be, err := backend.NewManager(ctx, nodes, link).GetBackend(conf.BackendType)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", conf.BackendType, err)
	}
	network, err := be.RegisterNetwork(ctx, workers, conf)
	if err != nil {
		return nil, fmt.Errorf("set up backend %s: %w", conf.BackendType, err)
	}
	return network, nil
}

// setRules removes what another configuration left and writes the rules that
// masquerade and forward the pods' traffic.
func setRules(ctx context.Context, conf *subnet.Config, network backend.Network, o options) error {
	used, unused := rulesOf(conf.EnableNFTables), rulesOf(!conf.EnableNFTables)
	if err := unused.CleanUp(ctx); err != nil {
		return fmt.Errorf("remove unused rules: %w", err)
	}
	if err := used.Init(ctx); err != nil {
		return fmt.Errorf("prepare rules: %w", err)
	}
	if o.masquerade {
		before, err := readLastSubnets(o.subnetFile)
		if err != nil {
			// Without it old rules may stay beside the new ones, which does no harm.
			klog.ErrorS(err, "cannot read the last subnets", "file", o.subnetFile)
		}
		err = used.SetupAndEnsureMasqRules(ctx, conf.Network, before.subnet4, before.network4,
			conf.IPv6Network, before.subnet6, before.network6, network.Lease(), o.resyncSeconds, false)
		if err != nil {
			return fmt.Errorf("masquerade rules: %w", err)
		}
	}
	used.SetupAndEnsureForwardRules(ctx, conf.Network, conf.IPv6Network, o.resyncSeconds)
	return nil
}

func rulesOf(nft bool) trafficmngr.TrafficManager {
	if nft {
		return &nftables.NFTablesManager{}
	}
	return &iptables.IPTablesManager{}
}
