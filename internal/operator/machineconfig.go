package operator

import (
	"context"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/operator/drain"
	"github.com/holdfast/holdfast/internal/operator/machineconfig"
	"github.com/holdfast/holdfast/internal/operator/upgrade"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// addMachineConfig adds the controllers of hosts' configurations and of what is
// done before a host boots. A cluster of an earlier release lacks the kinds of the
// first, and does without both.
func (o options) addMachineConfig(manager ctrl.Manager, twoNode bool) error {
	members := &etcd.Members{Identity: identity(o.etcdPKI, render.EtcdFolder, render.FormerEtcdFolder)}
	return addMachineConfig(manager, twoNode, func(ctx context.Context, addresses map[string]string) map[string]state.Fact[bool] {
		out := map[string]state.Fact[bool]{}
		for name, look := range members.Statuses(ctx, addresses) {
			out[name] = state.Known(look.Votes())
		}
		return out
	})
}

func addMachineConfig(manager ctrl.Manager, twoNode bool, serves func(context.Context, map[string]string) map[string]state.Fact[bool]) error {
	known, err := machineconfig.Known(manager.GetRESTMapper())
	if err != nil {
		return err
	}
	if !known {
		manager.GetLogger().Info("the cluster has no MachineConfigs: hosts keep the configuration of their installation")
		return nil
	}
	mirrors, err := machineconfig.KnownMirrors(manager.GetRESTMapper())
	if err != nil {
		return err
	}
	record, err := upgrade.Record(manager.GetRESTMapper(), manager.GetAPIReader())
	if err != nil {
		return err
	}
	controller := &machineconfig.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name), Now: time.Now,
		Serves: serves, Record: record, Operator: os.Getenv(render.NodeName), TwoNode: twoNode, Mirrors: mirrors,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of hosts' configurations: %w", err)
	}
	drains := &drain.Reconciler{Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name), Now: time.Now}
	if err := drains.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller that empties hosts: %w", err)
	}
	return nil
}
