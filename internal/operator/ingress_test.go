package operator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// counter counts what an operator writes, except its lease and events.
type counter struct {
	mu     sync.Mutex
	writes []string
}

// around counts what goes through one of the operator's connections.
func (w *counter) around(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "/leases") && !strings.Contains(req.URL.Path, "/events") {
			w.mu.Lock()
			w.writes = append(w.writes, req.Method+" "+req.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function itself.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (w *counter) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.writes
	w.writes = nil
	return out
}

// ingressOperator runs the controller of ingress as it runs in a cluster without
// two control planes, with the rights that it has there.
func (c *cluster) ingressOperator() (*counter, func()) {
	c.t.Helper()
	cfg := rest.CopyConfig(c.api.Config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + render.Namespace + ":" + render.Name,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	count := &counter{}
	cfg.WrapTransport = count.around
	manager, err := newManager(cfg, managing{health: "127.0.0.1:0", metrics: "0"}, logr.Discard())
	must(c.t, err)
	must(c.t, addIngress(manager))
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	return count, func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("the operator ended: %v", err)
		}
	}
}

func (c *cluster) patch(o client.Object, patch string) {
	c.t.Helper()
	must(c.t, c.admin.Patch(c.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func inRouters(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: decide.OperandNamespace, Name: name}
}

// steady returns how long nothing may be written.
func steady(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("HOLDFAST_SOAK")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// TestTheOperatorKeepsRouters runs the operator by the events of the API, with
// the rights of a cluster that is no two-node one, and over a restart.
func TestTheOperatorKeepsRouters(t *testing.T) {
	c := newCluster(t)
	c.api.Kubectl(t, "delete", "clusterrolebinding", render.Name+"-two-node")
	c.api.Kubectl(t, "-n", render.Namespace, "delete", "rolebinding", render.Name+"-two-node")
	c.join("h-1", "10.98.0.21")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "h-1"}}
	defer func() { must(t, c.admin.Delete(context.WithoutCancel(t.Context()), node)) }()
	_, stop := c.ingressOperator()
	defer func() { stop() }()

	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Namespace: decide.Namespace, Name: decide.DefaultName}}
	status := func(kind string) string {
		must(t, client.IgnoreNotFound(c.admin.Get(t.Context(), client.ObjectKeyFromObject(ic), ic)))
		for _, cond := range ic.Status.Conditions {
			if cond.Type == kind {
				return string(cond.Status)
			}
		}
		return ""
	}
	is := func(kind, want string) {
		t.Helper()
		c.until(func() bool { return status(kind) == want }, func() string { return fmt.Sprintf("%s is %q, want %q", kind, status(kind), want) })
	}
	is(decide.Admitted, "True")
	deployment := &appsv1.Deployment{ObjectMeta: inRouters("router-default")}
	c.until(func() bool {
		return c.admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment) == nil
	},
		func() string { return "no routers" })
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	must(t, c.admin.Status().Update(t.Context(), deployment))
	is(decide.Available, "True")

	t.Log("a drift is noticed, and so is a label that is taken away")
	internal := &corev1.Service{ObjectMeta: inRouters("router-internal-default")}
	c.patch(internal, `{"spec":{"selector":{"app":"mine"}}}`)
	c.until(func() bool {
		must(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(internal), internal))
		return internal.Spec.Selector["app"] == ""
	}, func() string { return fmt.Sprintf("the selector is %v", internal.Spec.Selector) })
	c.patch(internal, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, decide.LabelOwner))
	is(decide.OwnObjects, "False")
	c.patch(internal, fmt.Sprintf(`{"metadata":{"labels":{%q:"default"}}}`, decide.LabelOwner))
	is(decide.OwnObjects, "True")

	t.Log("another operator takes over and finds nothing to do, however often hosts change")
	stop()
	count, again := c.ingressOperator()
	stop = again
	before := status(decide.Available)
	end, ticks := time.Now().Add(steady(t)), 0
	for ; time.Now().Before(end); ticks++ {
		c.patch(node, fmt.Sprintf(`{"metadata":{"labels":{"tick":"%d"}}}`, ticks))
		<-time.NewTimer(100 * time.Millisecond).C
	}
	if wrote := count.written(); len(wrote) > 0 || before != "True" || ticks < 20 {
		t.Errorf("%d ticks; writes: %q", ticks, wrote)
	}
	t.Log("it works: what changes is followed")
	c.patch(ic, `{"spec":{"replicas":1}}`)
	c.until(func() bool {
		must(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
		return *deployment.Spec.Replicas == 1
	}, func() string { return "it follows nothing" })
}
