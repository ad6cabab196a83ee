package cli

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// TestADryRunOfABootKnowsKubeletsSettings: beside a host that is short of memory a configuration that leaves them alone
// comes first, as the operator decides it, and one that changes them waits.
func TestADryRunOfABootKnowsKubeletsSettings(t *testing.T) {
	rendered := func(name, maxPods string) *mcfgv1.MachineConfig {
		raw := `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"` + machineconfig.KubeletPath +
			`","mode":420,"overwrite":true,"contents":{"source":"data:,%7B%22maxPods%22%3A` + maxPods + `%7D"}}]}}`
		return &mcfgv1.MachineConfig{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{machineconfig.LabelRendered: ""}},
			Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}},
		}
	}
	for maxPods, waits := range map[string]string{"50": "has work to do for its configuration first", "60": ""} {
		c := hostSite(t, rendered("rendered-1", "50"), rendered("rendered-2", maxPods))
		workers := &mcfgv1.MachineConfigPool{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "worker"}, workers); err != nil {
			t.Fatal(err)
		}
		workers.Spec.Configuration.Name = "rendered-2"
		if err := c.Update(t.Context(), workers); err != nil {
			t.Fatal(err)
		}
		writesNode(t, c, "w-2", func(n *corev1.Node) {
			n.Annotations[rollout.CurrentConfig], n.Annotations[rollout.DesiredConfig] = "rendered-2", "rendered-2"
		})
		short := nodeOf(t, c, "w-2")
		short.Status.Conditions = append(short.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		if err := c.Status().Update(t.Context(), short); err != nil {
			t.Fatal(err)
		}
		r, err := foresee(t.Context(), c, "w-1", false, false, time.Now())
		if err != nil || r.BootsNow != (waits == "") || !strings.Contains(r.Waits, waits) {
			t.Errorf("maxPods %s: boots now %v, waits %q: %v", maxPods, r.BootsNow, r.Waits, err)
		}
	}
}
