package status

import (
	"maps"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// docs/facts/life.md#configuration-of-hosts, L-M19: what a host and a pool say of a
// configuration reaches the status.
func TestTheStatusKnowsHostsOnTheirWayAndPools(t *testing.T) {
	since := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	n := node("cp-1", corev1.ConditionTrue)
	maps.Copy(n.Annotations, map[string]string{
		rollout.CurrentConfig: "a", rollout.DesiredConfig: "b", rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.Drains), rollout.ReasonOf: "waits",
		rollout.GivenAt: since.Format(time.RFC3339), drain.Desired: drain.Before("b"), drain.Began: since.Format(time.RFC3339), drain.Waits: "shop/till-0: a budget",
	})
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "master"}}
	p.Spec.Configuration.Name, p.Spec.Paused = "b", true
	p.Status.MachineCount, p.Status.UpdatedMachineCount = 2, 1
	p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{
		{Type: mcfgv1.MachineConfigPoolUpdated, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)},
		{Type: mcfgv1.MachineConfigPoolUpdating, Status: corev1.ConditionFalse, Message: "1 of 2 hosts have b; the pool is paused"},
		{Type: mcfgv1.MachineConfigPoolRenderDegraded, Status: corev1.ConditionFalse, Message: "of before"},
	}
	api := &API{Name: "API", Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(n, p).Build(), Now: time.Now}
	f := api.Gather(t.Context())
	want := rollout.PoolState{Name: "master", Config: "b", Paused: true, Lacking: 1, Since: since, Progress: "1 of 2 hosts have b; the pool is paused"}
	if !f.Pools.Known || len(f.Pools.Value) != 1 || !f.Pools.Value[0].Since.Equal(since) {
		t.Fatalf("%+v", f.Pools)
	}
	f.Pools.Value[0].Since = since
	if f.Pools.Value[0] != want {
		t.Errorf("%+v, want %+v", f.Pools.Value[0], want)
	}
	c := f.Hosts[0].Config
	if !c.Known || c.Value.Desired != "b" || c.Value.Current != "a" || c.Value.Stage != rollout.Drains || !c.Value.Draining.Equal(since) || c.Value.InTheWay != "shop/till-0: a budget" {
		t.Errorf("%+v", c)
	}
	for _, id := range []string{"config-under-way", "pool-paused"} {
		found := false
		for _, said := range standing.Describe(f).Findings {
			found = found || string(said.ID) == id
		}
		if !found {
			t.Errorf("no finding %s", id)
		}
	}
}
