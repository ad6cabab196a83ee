package rollout_test

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostJoinsWithWhatAllHostsOfItsPoolHave, whatever the pool is on its way to.
func TestAHostJoinsWithWhatAllHostsOfItsPoolHave(t *testing.T) {
	p := &mcfgv1.MachineConfigPool{}
	p.Spec.Configuration.Name = "rendered-worker-next"
	if got := rollout.First(p); got != "" {
		t.Errorf("nobody has one yet: %s", got)
	}
	p.Status.Configuration.Name = "rendered-worker-1"
	for _, change := range []func(){
		func() {},
		func() { p.Status.MachineCount, p.Status.UpdatedMachineCount = 3, 2 },
		func() { p.Spec.Paused = true },
		func() {
			p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{Type: mcfgv1.MachineConfigPoolRenderDegraded, Status: corev1.ConditionTrue}}
		},
	} {
		if change(); rollout.First(p) != "rendered-worker-1" {
			t.Errorf("%+v: %s", p.Status, rollout.First(p))
		}
	}
	for role, want := range map[state.Role]string{state.RoleMaster: rollout.Master, state.RoleBootstrap: rollout.Master, state.RoleWorker: rollout.Worker} {
		if got := rollout.PoolOfRole(role); got != want {
			t.Errorf("%s: %s", role, got)
		}
	}
}
