package upgrade

import (
	"slices"
	"strings"
	"sync"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var installed sync.Once

func newClient(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	s, err := kube.NewScheme(mcfgv1.Install, coordinationv1.AddToScheme, discoveryv1.AddToScheme)
	must(t, err)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
	must(t, err)
	return c
}

// newSite returns a site of one control plane on a real API server, with an operator that
// has no more than its rights.
func newSite(t *testing.T) *world {
	t.Helper()
	api := apitest.Need(t, server)
	installed.Do(func() {
		parsed, err := config.Parse([]byte(sitetest.TwoDual))
		must(t, err)
		files, err := manifests.Render(parsed, topology.Of(parsed))
		must(t, err)
		api.Install(t, files)
	})
	w := &world{t: t, admin: newClient(t, api.Config), own: newClient(t, api.AsServiceAccount(render.Namespace, render.Name)), now: noon, hosts: map[string]*hostPlay{}, real: true}
	must(t, w.admin.DeleteAllOf(t.Context(), &corev1.Node{}))
	must(t, w.admin.DeleteAllOf(t.Context(), &configv1.ClusterVersion{}))
	for _, name := range []string{annotation.RecordName, parts.MarkName} {
		must(t, client.IgnoreNotFound(w.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: name}})))
	}
	w.join("cp-1", false)
	must(t, w.admin.Update(t.Context(), sized(1)))
	d := &appsv1.Deployment{}
	must(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d))
	d.Spec.Template.Spec.Containers[0].Image = image(release(oldImage))
	must(t, w.admin.Update(t.Context(), d))
	w.bringsDaemonSets()
	w.bringsRouter()
	w.surroundings()
	w.restart()
	return w
}

// TestOnARealAPIAnUpgradeGoesFromTheWishToItsEndWithTheOperatorsRights shows that the
// rights suffice, that the API takes what is written, and that a look at rest writes
// nothing.
func TestOnARealAPIAnUpgradeGoesFromTheWishToItsEndWithTheOperatorsRights(t *testing.T) {
	w := newSite(t)
	w.begins()
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	w.until("it soaks", func() bool { return strings.HasPrefix(w.condition("Progressing"), "True Proving") })
	w.annotate(annotation.CommitOf, w.record().Upgrade)
	w.until("it is over", func() bool { return !w.record().Started })
	if !slices.Equal(w.backups, []string{"cp-1 before-upgrade"}) {
		t.Errorf("backups that were taken: %q", w.backups)
	}
	w.daemonSets(t)
	for range 3 {
		must(t, w.look())
	}
	w.writes.Count = 0
	must(t, w.look())
	if w.writes.Count > 0 {
		t.Errorf("%d writes at rest", w.writes.Count)
	}
	for _, name := range clusteroperator.Names() {
		o := &configv1.ClusterOperator{}
		must(t, w.admin.Get(t.Context(), client.ObjectKey{Name: name}, o))
		if len(o.Status.Conditions) < 4 || len(o.Status.Versions) == 0 {
			t.Errorf("%s: %+v", name, o.Status)
		}
		if (name == clusteroperator.DNS || name == clusteroperator.Network) && !isAvailable(o) {
			t.Errorf("%s: %+v", name, o.Status.Conditions)
		}
	}
	s := w.version().Status
	if len(s.History) != 2 || s.History[0].State != configv1.CompletedUpdate || s.ObservedGeneration != w.version().Generation {
		t.Errorf("%+v", s)
	}
}

// TestTheOperatorAloneGivesTurns: neither an administrator, nor an agent of a control plane,
// nor a kubelet for its own node.
func TestTheOperatorAloneGivesTurns(t *testing.T) {
	w := newSite(t)
	api := apitest.Need(t, server)
	must(t, w.look())
	for who, c := range map[string]client.Client{
		"an administrator": w.admin, "an agent": newClient(t, api.As(t, "agent-cp-1", site.AgentsGroup)),
	} {
		for _, name := range annotation.GivenByOperator() {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+name+`":"x"}}}`))
			if err := c.Patch(t.Context(), w.node("cp-1"), patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "holdfast-operator alone gives hosts their turn") {
				t.Errorf("%s writes %s: %v", who, name, err)
			}
			if err := w.admin.Status().Patch(t.Context(), w.node("cp-1"), patch); !apierrors.IsForbidden(err) {
				t.Errorf("by the status, %s: %v", name, err)
			}
		}
		other := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.io/upgrade-host":"{}","x":"y"}}}`))
		must(t, c.Patch(t.Context(), w.node("cp-1"), other))
	}
	must(t, w.own.Patch(t.Context(), w.node("cp-1"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+annotation.TurnOf+`":"{}"}}}`))))
	n := w.node("cp-1")
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Odd", Status: corev1.ConditionTrue})
	must(t, w.admin.Status().Update(t.Context(), n)) // whoever keeps the turn may write all else
}

// TestAClusterVersionWithMistakesIsRefusedWithAllOfThem, each with its field.
func TestAClusterVersionWithMistakesIsRefusedWithAllOfThem(t *testing.T) {
	w := newSite(t)
	must(t, w.look())
	patch := func(text string) error {
		return w.admin.Patch(t.Context(), w.version(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	for text, fields := range map[string][]string{
		`{"spec":{"desiredUpdate":{"image":"registry.example/a:v1"}}}`:                                                    {"spec.desiredUpdate.image: "},
		`{"spec":{"desiredUpdate":{"version":"0.2.0"}}}`:                                                                  {"spec.desiredUpdate.image: "},
		`{"spec":{"desiredUpdate":{"image":"` + newImage + `0","force":true}}}`:                                           {"spec.desiredUpdate.image: ", "spec.desiredUpdate.force: "},
		`{"spec":{"channel":"stable","upstream":"https://x.example"}}`:                                                    {"spec.channel: ", "spec.upstream: "},
		`{"spec":{"clusterID":"0b27b4f6-0000-4000-8000-000000000000"}}`:                                                   {"spec.clusterID: "},
		`{"spec":{"overrides":[{"kind":"a","group":"b","namespace":"c","name":"d","unmanaged":true}]}}`:                   {"spec.overrides: "},
		`{"metadata":{"annotations":{"holdfast.io/upgrade-soak":"a day","holdfast.io/upgrade-paused":" "}}}`:              {"[holdfast.io/upgrade-soak]: ", "[holdfast.io/upgrade-paused]: "},
		`{"metadata":{"annotations":{"holdfast.io/upgrade-commit":"a b","holdfast.io/upgrade-overrides":"x"}}}`:           {"[holdfast.io/upgrade-commit]: ", "[holdfast.io/upgrade-overrides]: "},
		`{"metadata":{"annotations":{"holdfast.io/upgrade-sources":"/mnt","holdfast.io/upgrade-pause":"x"}}}`:             {"[holdfast.io/upgrade-sources]: ", "metadata.annotations: of those"},
		`{"metadata":{"annotations":{"holdfast.io/upgrade-offer":"registry.example/a@` + newImage + `"}}}`:                {"[holdfast.io/upgrade-offer]: "},
		`{"metadata":{"annotations":{"holdfast.io/upgrade-soak":"0h"}},"spec":{"desiredUpdate":{"image":"sha256:ABCD"}}}`: {"[holdfast.io/upgrade-soak]: ", "spec.desiredUpdate.image: "},
	} {
		err := patch(text)
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, field := range fields {
			if !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v has no %q", text, err, field)
			}
		}
	}
	for _, text := range []string{
		`{"metadata":{"annotations":{"holdfast.io/upgrade-soak":"1h30m","holdfast.io/upgrade-paused":"until Monday","holdfast.io/upgrade-commit":"ab12-3","x":"y"}}}`,
		`{"metadata":{"annotations":{"holdfast.io/upgrade-soak":"off","holdfast.io/upgrade-sources":"{\"folder\":\"/mnt\"}","holdfast.io/upgrade-overrides":"[\n{}]"}}}`,
		`{"metadata":{"annotations":{"holdfast.io/upgrade-offer":"` + newImage + `"}}}`,
		`{"spec":{"desiredUpdate":{"image":"` + newImage + `","version":"0.2.0"}}}`,
		`{"spec":{"desiredUpdate":null},"metadata":{"annotations":null}}`,
	} {
		if err := patch(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	another := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: configv1.ClusterVersionSpec{ClusterID: "x"}}
	if err := w.admin.Create(t.Context(), another); err == nil || !strings.Contains(err.Error(), "metadata.name: ") {
		t.Errorf("a second one: %v", err)
	}
}

// TestAPIServersTellWhichRemovedAPIsTheyWereAskedFor reads the figures of a real one, with
// the operator's account.
func TestAPIServersTellWhichRemovedAPIsTheyWereAskedFor(t *testing.T) {
	api := apitest.Need(t, server)
	_ = newSite(t)
	cfg := api.AsServiceAccount(render.Namespace, render.Name)
	address := strings.TrimPrefix(cfg.Host, "https://")
	got := APIServers{Config: cfg}.Deprecated(t.Context(), map[string]string{"cp-1": address, "cp-2": "127.0.0.1:1"})
	if _, answered := got["cp-1"]; !answered || len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
