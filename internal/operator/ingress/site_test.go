package ingress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	renderoperator "github.com/holdfast/holdfast/internal/render/operator"
	render "github.com/holdfast/holdfast/internal/render/router"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// cluster is a cluster without hosts, pods or controllers of Deployments: the
// test is all of them. The reconciler reads it from the API, with the
// operator's own rights.
type cluster struct {
	t     *testing.T
	api   *apitest.API
	admin client.Client
	r     *Reconciler
	wire  *wire
	now   time.Time
}

var install sync.Once

// newCluster returns one with two control planes and the manifests of an
// installation, in which nothing was reconciled yet.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	api := apitest.Need(t, server)
	c := &cluster{t: t, api: api, now: time.Now().Truncate(time.Second)}
	parsed, err := config.Parse([]byte(sitetest.TwoDual))
	c.must(err)
	files, err := manifests.Render(parsed, topology.Of(parsed))
	c.must(err)
	install.Do(func() { api.Install(t, apitest.Unguarded(files)) })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, configv1.Install, operatorv1.Install, render.InstallHosts,
	} {
		c.must(add(scheme))
	}
	c.admin, err = client.New(api.Config, client.Options{Scheme: scheme})
	c.must(err)
	c.reset()
	c.node("cp-1", true)
	c.node("cp-2", true)
	c.start()
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// start starts a new process of the operator, which knows nothing of the one
// before.
func (c *cluster) start() {
	c.t.Helper()
	cfg := rest.CopyConfig(c.api.Config)
	account := "system:serviceaccount:" + renderoperator.Namespace
	cfg.Impersonate = rest.ImpersonationConfig{UserName: account + ":" + renderoperator.Name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	c.wire = &wire{}
	cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { c.wire.next = rt; return c.wire }
	direct, err := client.New(cfg, client.Options{Scheme: c.admin.Scheme()})
	c.must(err)
	c.r = &Reconciler{
		Client: direct, Live: direct, Plane: render.Traefik{}, Now: func() time.Time { return c.now }, Random: rand.Reader, gateways: true, lists: true,
		Copied: func() bool { return true },
	}
}

// wire counts what the operator writes, and cuts it off.
type wire struct {
	next   http.RoundTripper
	mu     sync.Mutex
	writes []string
	// limit is the number of writes after which it is cut off; 0 means never.
	limit int
	// meddle is called before each write and plays somebody else who is faster.
	meddle func()
}

var errCut = errors.New("cut off by the test")

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return w.next.RoundTrip(req)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit > 0 && len(w.writes) >= w.limit {
		return nil, errCut
	}
	if w.meddle != nil {
		w.meddle()
	}
	w.writes = append(w.writes, req.Method+" "+req.URL.Path)
	return w.next.RoundTrip(req)
}

// written returns what was written since the last call.
func (w *wire) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.writes
	w.writes = nil
	return out
}

// reset removes what earlier tests left.
func (c *cluster) reset() {
	c.t.Helper()
	ctx := c.t.Context()
	var list operatorv1.IngressControllerList
	c.must(c.admin.List(ctx, &list))
	for i := range list.Items {
		c.must(c.admin.Patch(ctx, &list.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		c.must(client.IgnoreNotFound(c.admin.Delete(ctx, &list.Items[i])))
	}
	in := client.InNamespace(decide.OperandNamespace)
	for _, o := range []client.Object{
		&appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
		&corev1.Secret{}, &corev1.ConfigMap{}, &render.RouteHosts{},
	} {
		c.must(c.admin.DeleteAllOf(ctx, o, in))
	}
	c.must(c.admin.DeleteAllOf(ctx, &corev1.Pod{}, in, client.GracePeriodSeconds(0)))
	c.must(c.admin.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(decide.Namespace)))
	c.must(c.admin.DeleteAllOf(ctx, &networkingv1.IngressClass{}))
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(render.GatewayClassKind)
	c.must(c.admin.DeleteAllOf(ctx, class))
	var services corev1.ServiceList
	c.must(c.admin.List(ctx, &services, in))
	for i := range services.Items {
		c.must(c.admin.Delete(ctx, &services.Items[i]))
	}
	c.topology(configv1.DualReplicaTopologyMode, configv1.HighlyAvailableTopologyMode)
}

func (c *cluster) topology(controlPlane, infrastructure configv1.TopologyMode) {
	c.t.Helper()
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	patch := fmt.Sprintf(`{"status":{"controlPlaneTopology":%q,"infrastructureTopology":%q}}`, controlPlane, infrastructure)
	c.must(c.admin.Status().Patch(c.t.Context(), infra, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// node makes a host that is a control plane and a worker, or changes its
// readiness.
func (c *cluster) node(name string, ready bool) {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelOSStable: "linux", "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/master": "",
	}}}
	if err := c.admin.Create(c.t.Context(), n); !apierrors.IsAlreadyExists(err) {
		c.must(err)
	}
	c.get("", name, n)
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	c.must(c.admin.Status().Update(c.t.Context(), n))
}

func (c *cluster) get(namespace, name string, into client.Object) {
	c.t.Helper()
	c.must(c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into))
}

// there reports whether an object exists.
func (c *cluster) there(namespace, name string, into client.Object) bool {
	c.t.Helper()
	err := c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	c.must(client.IgnoreNotFound(err))
	return err == nil
}

// make makes an IngressController from YAML-like JSON of its spec.
func (c *cluster) make(name, spec string) {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	c.must(o.UnmarshalJSON([]byte(fmt.Sprintf(
		`{"apiVersion":"operator.openshift.io/v1","kind":"IngressController","metadata":{"namespace":%q,"name":%q},"spec":%s}`,
		decide.Namespace, name, spec))))
	c.must(c.admin.Create(c.t.Context(), o))
}

func (c *cluster) change(name, patch string) {
	c.t.Helper()
	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Namespace: decide.Namespace, Name: name}}
	c.must(c.admin.Patch(c.t.Context(), ic, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (c *cluster) controller(name string) *operatorv1.IngressController {
	c.t.Helper()
	ic := &operatorv1.IngressController{}
	c.get(decide.Namespace, name, ic)
	return ic
}

func (c *cluster) service(name string) *corev1.Service {
	c.t.Helper()
	s := &corev1.Service{}
	c.get(decide.OperandNamespace, name, s)
	return s
}

func (c *cluster) deployment(name string) *appsv1.Deployment {
	c.t.Helper()
	d := &appsv1.Deployment{}
	c.get(decide.OperandNamespace, decide.RouterName(name), d)
	return d
}

// patch changes an object of the routers' namespace as an administrator would.
func (c *cluster) patch(o client.Object, name, patch string) {
	c.t.Helper()
	o.SetNamespace(decide.OperandNamespace)
	o.SetName(name)
	c.must(c.admin.Patch(c.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// names returns all IngressControllers, and the one that must exist.
func (c *cluster) names() []string {
	c.t.Helper()
	var list operatorv1.IngressControllerList
	c.must(c.admin.List(c.t.Context(), &list))
	names := map[string]bool{decide.DefaultName: true}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// pass looks at every IngressController once.
func (c *cluster) pass() error {
	var errs []error
	for _, name := range c.names() {
		_, err := c.r.Reconcile(context.WithoutCancel(c.t.Context()), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: decide.Namespace, Name: name}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxPasses bounds the passes until nothing is written.
const maxPasses = 20

// settle runs passes until nothing is written any more, and returns what was
// written.
func (c *cluster) settle() []string {
	c.t.Helper()
	var all []string
	for range maxPasses {
		c.must(c.pass())
		wrote := c.wire.written()
		if len(wrote) == 0 {
			return all
		}
		all = append(all, wrote...)
	}
	c.t.Fatalf("it writes on and on: %s", strings.Join(all[max(0, len(all)-12):], "\n"))
	return nil
}

// says compares conditions given as "Type=Status" or "Type=Status/Reason".
func (c *cluster) says(name, want string) {
	c.t.Helper()
	ic := c.controller(name)
	for w := range strings.FieldsSeq(want) {
		kind, rest, _ := strings.Cut(w, "=")
		status, reason, named := strings.Cut(rest, "/")
		got := condition(ic.Status.Conditions, kind)
		if string(got.Status) != status || named && got.Reason != reason {
			c.t.Errorf("%s: %s: is %s/%s (%s)", name, w, got.Status, got.Reason, got.Message)
		}
	}
}

// runs plays the controller of Deployments: it sets the number of ready routers.
func (c *cluster) runs(name string, ready int32) {
	c.t.Helper()
	d := c.deployment(name)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas,
		ReadyReplicas: ready, AvailableReplicas: ready,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	c.must(c.admin.Status().Update(c.t.Context(), d))
}
