package agent

import (
	"context"
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/movedpeer"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/readdress"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// newReaddress returns the agent that takes this host to another place with its site. network
// returns the host's network, which is made after it.
func newReaddress(s *site.Site, network func() *hostnet.Network) *readdress.Agent {
	name := func() string { return network().Cluster().View().Host.NodeName }
	files := install.NewHost(name)
	return &readdress.Agent{
		Store: install.Store{}, Host: name, ControlPlane: s.Role.ControlPlane(), Now: time.Now,
		World: readdress.World{
			Kernel: func() ([]nodeaddress.Address, []state.HostRoute, error) {
				now, err := netwatch.Read(nil)
				return now.Addresses, now.Routes, err
			},
			Boot: func() (string, error) { id, _, err := observe.Boot(); return id, err },
			Able: files.Able, Keep: files.Keep, Move: files.Move, Trim: files.Trim, Forget: files.Forget,
			Quiet: func(ctx context.Context) error {
				if !s.Role.ControlPlane() || !s.Topology().Fencing {
					return nil
				}
				_, err := host.Run(ctx, host.Command("systemctl", "stop", renderhost.PacemakerUnit, renderhost.CorosyncUnit))
				return err
			},
			Lead: func(to map[netip.Addr]netip.Addr) error { _, err := movedpeer.Table{}.Set(to); return err },
			Reboot: func(ctx context.Context) error {
				_, err := host.Run(ctx, host.Command("systemctl", "reboot"))
				return err
			},
			Etcd: func() (readdress.Etcd, error) { return etcd.Open(etcd.Config{}) },
			Cluster: func(ctx context.Context, p decide.Plan, to decide.Side, j decide.Journal) error {
				api, err := install.Open()
				if err != nil {
					return err
				}
				return install.Cluster(ctx, api, s, p, to, decide.Map(p, to, name(), j))
			},
			Withdraw: func(ctx context.Context, id string) error {
				api, err := install.Open()
				if err != nil {
					return err
				}
				return install.Withdraw(ctx, api, id)
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
