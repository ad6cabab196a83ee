package operator

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/operator/upgrade"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// members asks etcd for what an upgrade is decided from.
type members struct{ *etcd.Members }

// ask asks all members at once.
func (m members) ask(ctx context.Context, addresses map[string]string) map[string]survey.Member {
	versions := m.Versions(ctx, addresses)
	out := map[string]survey.Member{}
	for name, s := range m.Statuses(ctx, addresses) {
		out[name] = survey.Member{
			ID: s.Member, Leader: s.Leader, Serves: s.Serves, Learner: s.Learner, Members: s.Members, Alarms: s.Errors,
			Version: s.Version, Cluster: versions[name].Cluster, Storage: versions[name].Storage,
		}
	}
	return out
}

// addUpgrade adds the controller of upgrades.
func (o options) addUpgrade(manager ctrl.Manager, twoNode bool) error {
	m := members{&etcd.Members{Identity: identity(o.etcdPKI, render.EtcdFolder, render.FormerEtcdFolder)}}
	return addUpgrade(manager, twoNode, m.ask, m.Equal)
}

// addUpgrade adds it with a way to ask etcd. A cluster of an earlier release has no
// ClusterVersion, and does without.
func addUpgrade(manager ctrl.Manager, twoNode bool, ask func(context.Context, map[string]string) map[string]survey.Member, equal func(context.Context, map[string]string) state.Fact[bool]) error {
	known, err := upgrade.Known(manager.GetRESTMapper())
	if err != nil {
		return err
	}
	if !known {
		manager.GetLogger().Info("the cluster has no ClusterVersion: it stays on its release")
		return nil
	}
	servers := upgrade.APIServers{Config: manager.GetConfig()}
	controller := &upgrade.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name), Now: time.Now,
		Etcd: ask, Equal: equal, Deprecated: servers.Deprecated, Refuses: servers.Refuses, TwoNode: twoNode, Ask: upgrade.AskHTTP,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of upgrades: %w", err)
	}
	return manager.AddReadyzCheck("upgrade", controller.Works)
}
