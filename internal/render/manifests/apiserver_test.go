package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/site"
)

// TestU68_AnUpgradeBringsTheRightOfAPIServersToReachKubelets: no run of kubeadm does, and a
// control plane that joins later has a certificate that needs it.
func TestU68_AnUpgradeBringsTheRightOfAPIServersToReachKubelets(t *testing.T) {
	for name, c := range sites(t) {
		objects := released(t, &site.Site{Config: c}).Objects
		i := slices.IndexFunc(objects, func(d Document) bool { return d.Kind == "ClusterRoleBinding" && d.Name == apiServerName })
		if i < 0 {
			t.Errorf("%s: no such binding", name)
			continue
		}
		for _, want := range []string{"kind: ClusterRole\n", "name: " + kubeletRole + "\n", "name: " + apiServerUser + "\n", "kind: User\n"} {
			if !strings.Contains(string(objects[i].Data), want) {
				t.Errorf("%s: no %q in\n%s", name, want, objects[i].Data)
			}
		}
	}
}
