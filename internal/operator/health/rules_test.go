package health

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/render/alerts"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// site is a cluster on a real API that has what the operator's alerts need: its rights, and
// Prometheus' operator where a test adds it.
type site struct {
	t     *testing.T
	admin client.Client
	r     *Rules
}

// newSite returns a site of two control planes, or of one or three.
func newSite(t *testing.T, twoNode bool) *site {
	t.Helper()
	api := apitest.Need(t, server)
	s := &site{t: t, admin: newClient(t, api), r: &Rules{TwoNode: twoNode}}
	api.Kubectl(t, "delete", "--wait=true", "--ignore-not-found", "crd", crdName)
	s.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: alerts.Namespace}})
	for _, o := range render.Access() {
		if role, ok := o.Value.(*rbacv1.Role); ok && role.Namespace == alerts.Namespace {
			s.make(role)
		}
		if binding, ok := o.Value.(*rbacv1.RoleBinding); ok && binding.Namespace == alerts.Namespace {
			s.make(binding)
		}
	}
	for _, o := range ofTwoNode() {
		if twoNode {
			s.make(o)
		} else {
			s.remove(o)
		}
	}
	s.restart()
	return s
}

// ofTwoNode returns what gives the operator its rights beside the two control planes.
func ofTwoNode() []client.Object {
	var out []client.Object
	for _, o := range render.TwoNodeObjects() {
		object := o.Value.(client.Object) //nolint:forcetypeassert // a test
		if object.GetNamespace() == alerts.Namespace {
			out = append(out, object)
		}
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, api *apitest.API) client.Client {
	t.Helper()
	scheme, err := kube.NewScheme(rbacv1.AddToScheme)
	must(t, err)
	c, err := client.New(api.Config, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

func (s *site) make(o client.Object) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), o); !apierrors.IsAlreadyExists(err) {
		must(s.t, err)
	}
}

func (s *site) remove(o client.Object) {
	s.t.Helper()
	must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), o)))
}

// restart begins a new process of the operator, with no more than the operator's rights. A
// client remembers the kinds for a while, so that a new process also sees new kinds.
func (s *site) restart() {
	s.t.Helper()
	scheme, err := kube.NewScheme()
	must(s.t, err)
	own, err := client.New(server.AsServiceAccount(render.Namespace, render.Name), client.Options{Scheme: scheme})
	must(s.t, err)
	s.r = &Rules{Client: own, TwoNode: s.r.TwoNode}
}

const crdName = "prometheusrules.monitoring.coreos.com"

// prometheus plays a cluster's operator of Prometheus, as far as alerts go. Groups are a
// map by name, as theirs are.
func (s *site) prometheus() {
	s.t.Helper()
	crd := filepath.Join(s.t.TempDir(), "crd.yaml")
	must(s.t, os.WriteFile(crd, []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+crdName+`}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, listKind: PrometheusRuleList, plural: prometheusrules, singular: prometheusrule}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              groups:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    rules: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`), 0o600))
	server.Kubectl(s.t, "apply", "--filename", crd)
	server.Kubectl(s.t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	s.restart()
}

// look looks once. The API may learn of the operator's rights a moment late.
func (s *site) look() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := s.r.keep(s.t.Context())
		if err == nil {
			return
		}
		if !apierrors.IsForbidden(errors.Unwrap(err)) || time.Now().After(end) {
			s.t.Fatal(err)
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
}

func (s *site) object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(alerts.APIVersion)
	o.SetKind(alerts.Kind)
	o.SetNamespace(alerts.Namespace)
	o.SetName(name)
	return o
}

// given returns the names of the objects, and how often each alert is in them.
func (s *site) given() (names string, times map[string]int) {
	s.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(alerts.APIVersion)
	list.SetKind(alerts.Kind + "List")
	must(s.t, s.admin.List(s.t.Context(), list))
	var objects []string
	times = map[string]int{}
	for _, o := range list.Items {
		objects = append(objects, o.GetName())
		for _, name := range alertsOf(s.t, o.Object) {
			times[name]++
		}
	}
	slices.Sort(objects)
	return strings.Join(objects, " "), times
}

// alertsOf returns the names of an object's alerts.
func alertsOf(t *testing.T, o map[string]any) []string {
	t.Helper()
	groups, _, err := unstructured.NestedSlice(o, "spec", "groups")
	must(t, err)
	var out []string
	for _, g := range groups {
		rules, _, err := unstructured.NestedSlice(g.(map[string]any), "rules") //nolint:forcetypeassert // a test
		must(t, err)
		for _, r := range rules {
			out = append(out, r.(map[string]any)["alert"].(string)) //nolint:forcetypeassert // a test
		}
	}
	return out
}

// has fails unless these objects are there and no others, and each of their alerts once.
func (s *site) has(want ...map[string]any) {
	s.t.Helper()
	var objects []string
	once := map[string]int{}
	for _, o := range want {
		objects = append(objects, (&unstructured.Unstructured{Object: o}).GetName())
		for _, name := range alertsOf(s.t, o) {
			once[name] = 1
		}
	}
	names, times := s.given()
	if names != strings.Join(objects, " ") || !maps.Equal(times, once) {
		s.t.Errorf("the objects are %s with %v, want %s with %v", names, times, objects, once)
	}
}

func TestTheAlertsOfPrometheusComeBackWithTheNextLook(t *testing.T) {
	s := newSite(t, true)
	s.look() // there is no Prometheus
	s.prometheus()
	s.look()
	s.has(alerts.SiteObject(), alerts.Object())
	s.remove(s.object(alerts.Name))
	s.remove(s.object(alerts.SiteName))
	s.look()
	s.has(alerts.SiteObject(), alerts.Object())
	server.Kubectl(t, "patch", "--namespace", alerts.Namespace, "prometheusrules", alerts.SiteName, "--type=merge", `--patch={"spec":{"groups":[]}}`)
	s.look()
	if got := server.Kubectl(t, "get", "--namespace", alerts.Namespace, "prometheusrules", alerts.SiteName, "--output", "yaml"); strings.Contains(got, "alert: ") {
		t.Errorf("what a person changed is not theirs: %s", got)
	}
	s.restart()
	s.look()
	s.has(alerts.SiteObject(), alerts.Object())
	server.Kubectl(t, "delete", "--wait=true", "crd", crdName)
	s.look() // which is no error
}

func TestASiteOfOneOrThreeHasTheAlertsOfEverySiteAlone(t *testing.T) {
	s := newSite(t, false)
	s.prometheus()
	s.look()
	s.has(alerts.SiteObject())
	s.remove(s.object(alerts.SiteName))
	s.look()
	s.has(alerts.SiteObject())
}

// TestAnUpgradeLeavesNoAlertTwice: an earlier release gave the rules of every site in the
// object of two control planes.
func TestAnUpgradeLeavesNoAlertTwice(t *testing.T) {
	s := newSite(t, true)
	s.prometheus()
	former := &unstructured.Unstructured{Object: alerts.Object()}
	groups := former.Object["spec"].(map[string]any)["groups"].([]any) //nolint:forcetypeassert // a test
	group := groups[0].(map[string]any)                                //nolint:forcetypeassert // a test
	more, _, err := unstructured.NestedSlice(alerts.SiteObject(), "spec", "groups")
	must(t, err)
	group["rules"] = append(group["rules"].([]any), more[0].(map[string]any)["rules"].([]any)...) //nolint:forcetypeassert // a test
	must(t, s.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(former), fieldManager))
	s.look()
	s.has(alerts.SiteObject(), alerts.Object())
}

// TestASiteThatGoesFromTwoToThreeKeepsTheAlertsOfEverySite: the plan removes the rights and
// the object of two control planes (install/grow). The operator of two may look once more.
func TestASiteThatGoesFromTwoToThreeKeepsTheAlertsOfEverySite(t *testing.T) {
	s := newSite(t, true)
	s.prometheus()
	s.look()
	s.has(alerts.SiteObject(), alerts.Object())
	for _, o := range ofTwoNode() {
		s.remove(o)
	}
	s.remove(s.object(alerts.Name))
	for end := time.Now().Add(patience); s.r.keep(t.Context()) == nil; { // the API learns of it a moment late
		if time.Now().After(end) {
			t.Fatal("the operator of two may make its object again")
		}
		s.remove(s.object(alerts.Name))
	}
	s.has(alerts.SiteObject())
	s.r.TwoNode = false
	s.restart()
	s.look()
	s.has(alerts.SiteObject())
}

// TestALookThatFailsEndsNothing: the next one gives what is missing.
func TestALookThatFailsEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []string
		fails := true
		kinds := meta.NewDefaultRESTMapper(nil)
		kinds.Add(schema.FromAPIVersionAndKind(alerts.APIVersion, alerts.Kind), meta.RESTScopeNamespace)
		api := fake.NewClientBuilder().WithRESTMapper(kinds).WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
				if fails {
					return errors.New("no API answers")
				}
				given = append(given, o.(interface{ GetName() string }).GetName()) //nolint:forcetypeassert // a test
				return nil
			},
		}).Build()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&Rules{Client: api, TwoNode: true}).Start(ctx) }()
		synctest.Wait()
		fails = false
		time.Sleep(resync)
		synctest.Wait()
		if want := []string{alerts.SiteName, alerts.Name}; !slices.Equal(given, want) {
			t.Errorf("given are %v, want %v", given, want)
		}
		cancel()
		must(t, <-ended)
	})
}
