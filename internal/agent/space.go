package agent

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/agent/backup"
	"github.com/holdfast/holdfast/internal/agent/space"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newSpace returns the loop that gives etcd of a control plane space back.
func newSpace(s *site.Site, view func() state.NetworkView) *space.Agent {
	shape := decide.Static
	if s.Topology().Fencing {
		shape = decide.Two
	}
	members := etcdMembers()
	return space.New(space.Options{
		Files: space.ThisHost{}, Shape: shape, View: view, Members: members.Space,
		Own: func(address string) (space.Etcd, error) { return members.Client(address) },
		Keeper: func(ctx context.Context) (state.EtcdReport, error) {
			return keeperclient.Report(ctx, state.EtcdSocketPath)
		},
		BacksUp: backup.ThisUnit().Works, Backup: backup.ThisUnit().State,
		Open:   func() (space.API, error) { return kube.Open(state.AgentKubeconfig) },
		Uptime: func() (time.Duration, error) { _, up, err := observe.Boot(); return up, err },
		Now:    time.Now,
	})
}
