package flannel_test

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestManifestsMatchTheApprovedFile(t *testing.T) {
	for name, config := range map[string]string{
		"one-none.yaml": sitetest.OneNone, "two-dual.yaml": sitetest.TwoDual, "three-v6.yaml": sitetest.ThreeV6,
	} {
		t.Run(name, func(t *testing.T) {
			file, err := flannel.Manifests(sitetest.New(t, config))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, file.Data)
		})
	}
}

// The right to patch the status of nodes covers every node: the guard that
// limits it to the daemon's own node must exist first.
func TestTheGuardOfTheAccountComesBeforeTheAccountsRight(t *testing.T) {
	file, err := flannel.Manifests(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	text := string(file.Data)
	binding := strings.Index(text, "kind: ValidatingAdmissionPolicyBinding\nmetadata:\n  labels:\n    app.kubernetes.io/name: holdfast-operator\n    holdfast.io/guard: any")
	right := strings.Index(text, "kind: ClusterRoleBinding")
	if binding < 0 || right < binding {
		t.Errorf("the guard's binding is at %d, the right's at %d", binding, right)
	}
	namespace, name, _ := strings.Cut(strings.TrimPrefix(guards.PodNetworkAccount, "system:serviceaccount:"), ":")
	if subject := "- kind: ServiceAccount\n  name: " + name + "\n  namespace: " + namespace + "\n"; !strings.Contains(text, subject) {
		t.Errorf("the guard is for %s, and no right is given to it", guards.PodNetworkAccount)
	}
}

func TestTheSelectorNamesThePodsOfTheDaemon(t *testing.T) {
	file, err := flannel.Manifests(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	if want := "matchLabels:\n      " + strings.Replace(flannel.Selector, "=", ": ", 1); !strings.Contains(string(file.Data), want) {
		t.Errorf("the daemon's pods are not those of %s", flannel.Selector)
	}
}
