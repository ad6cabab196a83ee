package agent

import (
	"context"
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/agent/dualstack"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/readdress"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// announced are the agents that follow what is announced about the addresses of the site.
type announced struct {
	move   *readdress.Agent
	family *dualstack.Agent
}

// newAnnounced returns them. network returns the host's network, which is made after them.
func newAnnounced(s *site.Site, network func() *hostnet.Network, pacemaker *pacemakerstatus.Collector) announced {
	move := newReaddress(s, network)
	spare := newSpare(s, func() state.NetworkView { return network().Cluster().View() }, pacemaker)
	return announced{move, newDualStack(s, network, spare.mayBoot, move.Announced)}
}

// Infrastructure hears the API's word on the cluster, as both want it.
func (a announced) Infrastructure(in kube.Infrastructure) bool {
	a.family.Infrastructure(in)
	return a.move.Infrastructure(in)
}

// Nodes hears the API's list of nodes.
func (a announced) Nodes(list []state.Node) {
	a.family.Nodes(list)
	a.move.Nodes(list)
}

// Tasks returns those of both.
func (a announced) Tasks() []loop.Task { return []loop.Task{a.move.Task(), a.family.Task()} }

// newDualStack returns the agent by which this host gets a second address family with its site.
// network returns the host's network, which is made after it; moves says that the site moves.
func newDualStack(s *site.Site, network func() *hostnet.Network, carried func(context.Context) (state.Fact[bool], string), moves func() string) *dualstack.Agent {
	view := func() state.NetworkView { return network().Cluster().View() }
	files, store := install.NewHost(), install.Store{}
	return &dualstack.Agent{
		Store: store, Host: func() string { return view().Host.NodeName }, Now: time.Now,
		World: dualstack.World{
			Boot:    func() (string, error) { id, _, err := observe.Boot(); return id, err },
			Fits:    func(p decide.Plan) ([]netip.Addr, string) { return decide.Fits(p, nodeaddress.Of(view())) },
			Carried: carried,
			Retired: func(ctx context.Context, name string) (is bool, err error) {
				err = network().Try(ctx, state.KubeletKubeconfig, func(ctx context.Context, c *kube.Client) error {
					list, err := c.Retired(ctx, name)
					h, listed := list.Of(name)
					is = listed && h.Open()
					return err
				})
				return is, err
			},
			Serves: func(ctx context.Context, p decide.Plan) (bool, error) {
				if is, err := files.Serves(p); err != nil || !is {
					return false, err
				}
				if is, err := install.Runs(p); err != nil || !is {
					return false, err
				}
				_, err := network().OwnServer()(ctx)
				return err == nil, nil // one that does not answer has not started yet
			},
			Shares: func(ctx context.Context) (shares []string, err error) {
				err = network().Try(ctx, state.KubeletKubeconfig, func(ctx context.Context, c *kube.Client) error {
					n, err := c.Node(ctx, view().Host.NodeName)
					if err == nil && n != nil {
						shares = n.Spec.PodCIDRs
					}
					return err
				})
				return shares, err
			},
			Serve: files.Serve, Change: files.Change,
			AskBoot: func(ctx context.Context, why string) error {
				name := view().Host.NodeName
				return network().Try(ctx, state.KubeletKubeconfig, func(ctx context.Context, c *kube.Client) error {
					n, err := c.Node(ctx, name)
					if err != nil || n == nil || n.Annotations[rollout.RebootWanted] != "" {
						return err
					}
					wish := rollout.Ask(time.Now(), false, "")
					return c.SetAnnotations(ctx, name, map[string]*string{rollout.RebootWanted: &wish, rollout.RebootReason: &why})
				})
			},
			Cluster: func() (dualstack.Cluster, error) {
				api, err := install.Open()
				return dualstack.Carrier{API: api, Store: store, Site: s, Moves: moves}, err
			},
			Tell: func(ctx context.Context, node, value string) error {
				values := map[string]*string{install.Annotation: &value}
				if value == "" {
					values[install.Annotation] = nil
				}
				return network().Try(ctx, state.KubeletKubeconfig, func(ctx context.Context, c *kube.Client) error {
					return c.SetAnnotations(ctx, node, values)
				})
			},
		},
	}
}
