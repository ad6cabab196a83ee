package guards

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	render "github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// inOwnNamespace limits the operator's cache to what it may read: Secrets of its own
// namespace, and the list of hosts that were taken out.
func inOwnNamespace() cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{retired.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", retired.ConfigMap)}}},
		&corev1.Secret{}:    {Namespaces: map[string]cache.Config{manifests.NamespaceEtcd: {}}},
	}}
}

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// site is a cluster of two control planes without hosts, and without a single
// pod of ours unless a test starts the controller.
type site struct {
	t     *testing.T
	api   *apitest.API
	admin client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, api: apitest.Need(t, server)}
	var err error
	s.admin, err = client.New(s.api.Config, client.Options{Scheme: newScheme(t)})
	must(t, err)
	return s
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, corev1.AddToScheme, configv1.Install} {
		must(t, add(scheme))
	}
	return scheme
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filesOf returns the manifests of a configuration: those of guards, and the
// rest.
func filesOf(t *testing.T, text string) (rest, guards []state.File) {
	t.Helper()
	c, err := config.Parse([]byte(text))
	must(t, err)
	files, err := manifests.Render(c, topology.Of(c))
	must(t, err)
	for _, f := range files {
		if strings.Contains(string(f.Data), render.Label+":") {
			guards = append(guards, f)
			continue
		}
		rest = append(rest, f)
	}
	return rest, guards
}

// installed reports whether the API server has what install applies.
var installed bool

// install applies the manifests of two control planes without guards, and others'
// kinds.
func (s *site) install() {
	s.t.Helper()
	if installed {
		return
	}
	installed = true
	rest, _ := filesOf(s.t, sitetest.TwoDual)
	s.api.Install(s.t, rest)
	s.api.Kubectl(s.t, "apply", "--server-side", "--filename", filepath.Join("testdata", "crds"))
	s.api.Kubectl(s.t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", filepath.Join("testdata", "crds"))
}

// breaks is for a test that changes the site for good: the next test installs it
// anew.
func (s *site) breaks() { s.t.Cleanup(func() { installed = false }) }

// guard applies the guards as an installation does.
func (s *site) guard() {
	s.t.Helper()
	_, guards := filesOf(s.t, sitetest.TwoDual)
	for _, f := range guards {
		o := parse(s.t, string(f.Data))
		must(s.t, s.admin.Patch(s.t.Context(), o, client.Apply, client.FieldOwner("holdfast-install"), client.ForceOwnership)) //nolint:staticcheck // a file's content
	}
}

// guardNetwork applies the guards that every cluster has: that of the pod network comes
// with it, and the operator brings the one of retired hosts at its first look.
func (s *site) guardNetwork() {
	s.t.Helper()
	for _, g := range render.Always(nil) {
		for _, o := range []client.Object{g.Policy, g.Binding} {
			must(s.t, s.admin.Patch(s.t.Context(), o, client.Apply, client.FieldOwner("holdfast-install"), client.ForceOwnership)) //nolint:staticcheck // as kubectl does
		}
	}
}

// parse reads one object.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

// ours returns the guards that the cluster has.
func (s *site) ours() ([]admissionv1.ValidatingAdmissionPolicy, []admissionv1.ValidatingAdmissionPolicyBinding) {
	s.t.Helper()
	var policies admissionv1.ValidatingAdmissionPolicyList
	ctx := context.WithoutCancel(s.t.Context()) // the end of a test uses this too
	must(s.t, s.admin.List(ctx, &policies, client.HasLabels{render.Label}))
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	must(s.t, s.admin.List(ctx, &bindings, client.HasLabels{render.Label}))
	return policies.Items, bindings.Items
}

// until waits for something.
func (s *site) until(is func() bool, otherwise func() string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			s.t.Fatal(otherwise())
		}
		<-time.NewTimer(20 * time.Millisecond).C
	}
}

// topology writes the topology of the cluster.
func (s *site) topology(mode configv1.TopologyMode) error {
	infra := &configv1.Infrastructure{}
	if err := s.admin.Get(context.WithoutCancel(s.t.Context()), client.ObjectKey{Name: clusterName}, infra); err != nil {
		return err
	}
	infra.Status.ControlPlaneTopology = mode
	return s.admin.Status().Update(context.WithoutCancel(s.t.Context()), infra)
}
