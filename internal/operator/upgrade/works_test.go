package upgrade

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// rendered returns the DaemonSets that a site gets for its DNS and its network.
func rendered(t *testing.T) []*appsv1.DaemonSet {
	t.Helper()
	of := sitetest.New(t, sitetest.TwoDual)
	var out []*appsv1.DaemonSet
	for _, render := range []func(*site.Site) (state.File, error){clusterdns.Manifests, flannel.Manifests} {
		file, err := render(of)
		must(t, err)
		for text := range strings.SplitSeq(string(file.Data), "---\n") {
			d := &appsv1.DaemonSet{}
			if strings.Contains(text, "kind: DaemonSet\n") {
				must(t, yaml.Unmarshal([]byte(text), d))
				out = append(out, d)
			}
		}
	}
	return out
}

// daemonSets gives a site these, with all their pods, as the installation and the
// controller of DaemonSets do.
func (w *world) daemonSets(t *testing.T) {
	t.Helper()
	list := rendered(t)
	if len(list) != 2 {
		t.Fatalf("%d DaemonSets", len(list))
	}
	for _, d := range list {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}
		must(t, client.IgnoreAlreadyExists(w.admin.Create(t.Context(), namespace)))
		must(t, client.IgnoreAlreadyExists(w.admin.Create(t.Context(), d)))
		must(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(d), d))
		d.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1, UpdatedNumberScheduled: 1}
		must(t, w.admin.Status().Update(t.Context(), d))
	}
}

func isAvailable(o *configv1.ClusterOperator) bool {
	for _, c := range o.Status.Conditions {
		if strings.HasSuffix(string(c.Type), string(configv1.OperatorAvailable)) { // network has two writers
			return c.Status == configv1.ConditionTrue
		}
	}
	return false
}

// TestClusterOperatorsTellOfTheDaemonSetsOfDNSAndTheNetwork, and not of another object
// with the same name.
func TestClusterOperatorsTellOfTheDaemonSetsOfDNSAndTheNetwork(t *testing.T) {
	w := newWorld(t, 1, 0)
	available := func(name string) bool {
		o := &configv1.ClusterOperator{}
		must(t, w.admin.Get(t.Context(), client.ObjectKey{Name: name}, o))
		return isAvailable(o)
	}
	for _, s := range daemonSets {
		must(t, w.admin.Delete(t.Context(), s.of(oldImage)))
	}
	must(t, w.admin.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterdns.Namespace, Name: clusterdns.Name}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1, UpdatedReplicas: 1},
	}))
	for range 2 { // the first look makes the ClusterVersion
		must(t, w.look())
	}
	for _, name := range []string{clusteroperator.DNS, clusteroperator.Network} {
		if available(name) {
			t.Errorf("%s is available without its DaemonSet", name)
		}
	}
	w.daemonSets(t)
	must(t, w.look())
	for _, name := range []string{clusteroperator.DNS, clusteroperator.Network} {
		if !available(name) {
			t.Errorf("%s is not available with its DaemonSet", name)
		}
	}
}
