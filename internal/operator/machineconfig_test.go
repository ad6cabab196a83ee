package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/operator/machineconfig"
)

// configure runs the controller of hosts' configurations alone, with the
// operator's account, until stop is called.
func (c *cluster) configure() (stop func()) {
	c.t.Helper()
	manager, err := newManager(c.asOperator(), managing{health: "127.0.0.1:0", metrics: "0", twoNode: true}, logOf(c.t))
	must(c.t, err)
	must(c.t, addMachineConfig(manager, true, nil))
	return c.run(manager)
}

// agents play those of all hosts once: each has at once what it is given.
func (c *cluster) agents(ctx context.Context) {
	c.t.Helper()
	var nodes corev1.NodeList
	must(c.t, c.admin.List(ctx, &nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		h := rollout.HostOf(n)
		if h.Desired == h.Current && h.State == rollout.Done {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			rollout.CurrentConfig: h.Desired, rollout.StateOf: string(rollout.Done),
		}}})
		must(c.t, err)
		must(c.t, c.admin.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)))
	}
}

// TestHostsAreGivenTheirConfigurationByTheManager shows that events wake the
// controller, and that the operator's account suffices.
func TestHostsAreGivenTheirConfigurationByTheManager(t *testing.T) {
	c := newCluster(t)
	must(t, c.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Labels: map[string]string{state.LabelWorker: ""}}}))
	c.setReady("w-1", corev1.ConditionTrue)
	stop := c.configure()
	defer stop()
	has := func(source int) {
		t.Helper()
		p := &mcfgv1.MachineConfigPool{}
		c.until(func() bool {
			c.agents(t.Context())
			err := c.admin.Get(t.Context(), client.ObjectKey{Name: rollout.Worker}, p)
			return err == nil && p.Status.UpdatedMachineCount == 1 && len(p.Spec.Configuration.Source) == source &&
				p.Status.Configuration.Name == p.Spec.Configuration.Name
		}, func() string { return fmt.Sprintf("the pool is %+v", p) })
	}
	has(0)
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "50-a", Labels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: rollout.Worker}}}
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,a"}}]}}`)
	must(t, c.admin.Create(t.Context(), mc))
	has(1)
	must(t, c.admin.Delete(t.Context(), mc))
	has(0)
}

func TestAClusterOfAnEarlierReleaseHasNoMachineConfigs(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	if known, err := machineconfig.Known(mapper); known || err != nil {
		t.Errorf("%t %v", known, err)
	}
	if known, err := machineconfig.KnownMirrors(mapper); known || err != nil {
		t.Errorf("sets of mirrors: %t %v", known, err)
	}
}
