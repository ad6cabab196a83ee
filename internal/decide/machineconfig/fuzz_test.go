package machineconfig_test

import (
	"errors"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// FuzzRender merges two Ignition configs and one kernel argument that somebody
// wrote. What is accepted can be read and applied by a host, and has the same name
// in the other order of objects.
func FuzzRender(f *testing.F) {
	for _, mc := range site(f) {
		f.Add(string(mc.Spec.Config.Raw), `{"ignition":{"version":"3.5.0"}}`, "quiet")
	}
	f.Add(`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/a","contents":{"compression":"gzip","source":"data:,x"}}]}}`,
		`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/a","mode":-1,"contents":{"source":"data:;base64,eA=="}}]}}`, "a=$(b)")
	f.Add(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/sysctl.d/a.conf","contents":{"source":"data:,-a%0Ab=%0A"}}]}}`,
		`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"a.service","mask":true,"contents":"","dropins":[{"name":"b.conf"}]}]}}`, "")
	f.Fuzz(func(t *testing.T, first, second, argument string) {
		list := []mcfgv1.MachineConfig{
			{ObjectMeta: metav1.ObjectMeta{Name: "10-a"}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(first)}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "20-b"}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(second)}}},
		}
		if argument != "" {
			list[0].Spec.KernelArguments = []string{argument}
		}
		r, err := machineconfig.Render("worker", list)
		var mistakes machineconfig.Mistakes
		if err != nil && (!errors.As(err, &mistakes) || len(mistakes) == 0) {
			t.Fatalf("no mistake is named: %v", err)
		}
		for _, m := range mistakes {
			if m.Object == "" || m.Field == "" || m.Why == "" {
				t.Errorf("a mistake lacks its place: %+v", m)
			}
		}
		if err != nil {
			return
		}
		applied(t, r)
		if other := name(t, list[1], list[0]); other != r.Name {
			t.Errorf("in another order %s, not %s", other, r.Name)
		}
	})
}
