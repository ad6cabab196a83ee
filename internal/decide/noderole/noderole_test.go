package noderole

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		name        string
		have        []string
		schedulable bool
		proven      bool
		want        []string
	}{
		{"a worker", []string{Claim + "=worker"}, false, false, []string{Worker}},
		{"a worker that has its label", []string{Claim + "=worker", Worker}, true, false, nil},
		{"a control plane that kubeadm has not labelled yet", []string{Claim + "=master"}, false, false, nil},
		{"a host that nobody installed", nil, true, false, nil},
		{"who claims to be a control plane gets nothing by it", []string{Claim + "=master"}, true, false, nil},
		{"a control plane beside workers", []string{ControlPlane}, false, false, []string{Master}},
		{"a control plane that takes workloads", []string{ControlPlane}, true, false, []string{Master, Worker}},
		{"a control plane that lacks one", []string{ControlPlane, Master}, true, false, []string{Worker}},
		{"a complete control plane", []string{ControlPlane, Master, Worker}, true, false, nil},
		{"a label that is too many stays", []string{ControlPlane, Master, Worker}, false, false, nil},
		{"a proven control plane whose Node was made anew", []string{Claim + "=master"}, true, true, []string{ControlPlane, Master, Worker}},
		{"a proven control plane beside workers", nil, false, true, []string{ControlPlane, Master}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := map[string]string{"kubernetes.io/os": "linux"}
			for _, l := range c.have {
				name, value, _ := strings.Cut(l, "=")
				have[name] = value
			}
			if diff := cmp.Diff(c.want, Missing(have, c.schedulable, c.proven)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
