package hostchange_test

import (
	"slices"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/decide/hostchange"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// FuzzCompare compares two configurations that somebody wrote. Each change has a
// row, the way back has the same changes, and a reboot stands alone.
func FuzzCompare(f *testing.F) {
	f.Add(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/sysctl.d/a.conf","contents":{"source":"data:,a=1%0Ab=2"}},{"path":"/etc/b","contents":{"source":"data:,"}}]}}`,
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/sysctl.d/a.conf","contents":{"source":"data:,b=2"}},{"path":"/etc/modules-load.d/a.conf","contents":{"source":"data:,a"}}]}}`)
	f.Add(`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Service]"},{"name":"b@.timer"}]}}`,
		`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"a.service","mask":true},{"name":"kubelet.service","dropins":[{"name":"a.conf","contents":"[Service]"}]}]},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}}`)
	f.Add(`{"ignition":{"version":"3.0.0"}}`, `{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,"}}]}}`)
	read := func(text string) (machineconfig.Config, error) {
		return machineconfig.Read(mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(text)}}})
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		a, errA := read(from)
		b, errB := read(to)
		if errA != nil || errB != nil {
			return
		}
		table := hostchange.Table(nil)
		there, back := hostchange.Compare(a, b, table), hostchange.Compare(b, a, table)
		if len(there.Changes) != len(back.Changes) {
			t.Errorf("%d changes, and %d back", len(there.Changes), len(back.Changes))
		}
		for _, c := range there.Changes {
			if c.Rule == "" || c.Name == "" {
				t.Errorf("a change lacks its row or its name: %+v", c)
			}
		}
		if there.Reboots() && (len(there.After) != 1 || !slices.Equal(there.Before, []hostchange.Action{{Do: hostchange.Drain}})) {
			t.Errorf("a reboot does not stand alone: %v, %v", there.Before, there.After)
		}
		if same := hostchange.Compare(a, a, table); len(same.Changes) > 0 || !same.Quiet() {
			t.Errorf("a configuration differs from itself: %+v", same)
		}
	})
}
