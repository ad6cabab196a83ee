package hostnet

import (
	"context"
	"net"
	"net/netip"
	"os"

	filter "github.com/holdfast/holdfast/internal/adapter/firewall"
	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	publisher "github.com/holdfast/holdfast/internal/adapter/mdns"
	"github.com/holdfast/holdfast/internal/adapter/nic"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	table "github.com/holdfast/holdfast/internal/adapter/redirect"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/balancer"
	"github.com/holdfast/holdfast/internal/agent/network/firewall"
	"github.com/holdfast/holdfast/internal/agent/network/holders"
	"github.com/holdfast/holdfast/internal/agent/network/keepalived"
	"github.com/holdfast/holdfast/internal/agent/network/linger"
	"github.com/holdfast/holdfast/internal/agent/network/links"
	"github.com/holdfast/holdfast/internal/agent/network/mayhold"
	"github.com/holdfast/holdfast/internal/agent/network/mdns"
	"github.com/holdfast/holdfast/internal/agent/network/names"
	"github.com/holdfast/holdfast/internal/agent/network/redirect"
	"github.com/holdfast/holdfast/internal/agent/network/registration"
	"github.com/holdfast/holdfast/internal/agent/network/relay"
	"github.com/holdfast/holdfast/internal/agent/network/resolver"
	"github.com/holdfast/holdfast/internal/agent/network/servingcert"
	"github.com/holdfast/holdfast/internal/agent/network/vipcheck"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// compose chooses sources and reconcilers by the host's role. A reconciler
// decides from the view whether the cluster needs its work; compose only leaves
// out what a worker cannot have.
func (n *Network) compose() {
	a := n.agent
	a.Sources = []network.Source{
		&netwatch.Source{Changed: a.Views.Follow(), Path: netwatch.Path, Logf: n.logf, Now: n.Now}, n.stage, n.nodes,
		&settings.Source{Servers: n.servers, Path: settings.Path, Logf: n.logf, Heard: n.Infrastructure},
		&mayhold.Source{
			Fencing: n.Site.Topology().Fencing && n.Site.Role.ControlPlane(), Path: mayhold.Path, Recorded: records.Files{}.HasRecord, Logf: n.logf,
			Ask: func(ctx context.Context, mark string) (state.EtcdReport, error) {
				return keeperclient.NextReport(ctx, state.EtcdSocketPath, mark)
			},
		},
		probe.Router{},
	}
	n.add(&links.Reconciler{Kernel: nic.Kernel{Root: "/"}, Solicit: nic.Solicit})
	n.add(n.keepalived())
	n.add(&linger.Reconciler{Kernel: linger.OfHost(), Now: n.Now})
	n.add(relay.New(n.Now))
	if n.Site.Role.ControlPlane() {
		options := balancer.HostOptions(payload.Image("haproxy"))
		a.Sources = append(a.Sources, haproxy.Source{Client: options.Client}, &probe.LocalAPI{CA: balancer.CAPath})
		n.add(balancer.New(options))
		n.add(redirect.New(table.Table{}, n.Now))
	}
	n.add(n.firewall())
	n.add(names.New(names.Options{Root: "/", Image: payload.Image("coredns"), Now: n.Now}))
	n.add(resolver.New(resolver.Options{Root: "/", Now: n.Now, Expected: func() bool {
		_, err := os.Stat(coredns.PodPath)
		return err == nil
	}}))
	n.add(mdns.New(&publisher.Publisher{Logf: n.logf}))
	n.add(&holders.Announcer{Annotate: n.annotate})
	n.add(n.registration())
	n.add(n.reporter())
}

// firewall returns the reconciler of this host's ports.
func (n *Network) firewall() network.Reconciler {
	return firewall.New(firewall.Options{
		Root: "/", Flannel: n.Site.Flannel(), BMCs: n.Site.BMCHosts(), Table: filter.Table{},
		Site: filter.ThisSite().Inspect, Now: n.Now, Logf: n.logf,
		Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		},
	})
}

// registration returns the reconciler that creates this host's Node again. On a
// control plane it uses the agent's own account, which may set all labels of the
// Node. No kubelet's account may.
func (n *Network) registration() network.Reconciler {
	servers := n.servers
	if n.Site.Role.ControlPlane() {
		servers = &kube.Servers{Kubeconfig: state.AgentKubeconfig, Name: n.servers.Name, Addresses: n.servers.Addresses}
	}
	return registration.New(registration.Options{
		Try: func(ctx context.Context, do func(context.Context, registration.API) error) error {
			return servers.Try(ctx, func(ctx context.Context, c *kube.Client) error { return do(ctx, registry{c}) })
		},
		Kubelet: registration.KubeletIsWell, Answers: registration.KubeletAnswers,
		Path: registration.Path, Peers: registration.Peers, Now: n.Now,
	})
}

// reporter returns the reconciler that publishes the VIPs which this host is set
// up for. On a control plane that includes the certificate of its API server.
func (n *Network) reporter() network.Reconciler {
	options := vipcheck.Options{Annotate: n.setAnnotations, Holders: observe.Holders, Reconcilers: n.agent.States}
	if n.Site.Role.ControlPlane() {
		certificate := servingcert.New(servingcert.Options{Life: n.Site.Config.CertificateLife(), Now: n.Now})
		n.add(certificate)
		options.Certificate, options.BMCs = certificate.Served, records.Files{}.BMCs
	}
	return vipcheck.New(options)
}

// add adds a reconciler, and adds it to the sources if it is one.
func (n *Network) add(p network.Reconciler) {
	n.agent.Reconcilers = append(n.agent.Reconcilers, p)
	if s, ok := p.(network.Source); ok {
		n.agent.Sources = append(n.agent.Sources, s)
	}
}

func (n *Network) keepalived() network.Reconciler {
	pod, err := render.Pod(payload.Image("keepalived"))
	if err != nil {
		panic(err) // cannot happen: the value is fixed, and tests render it
	}
	return keepalived.New(keepalived.Options{Root: "/", Pod: pod, Now: n.Now, Logf: n.logf})
}
