package drain

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// site is a cluster on a real API whose kubelets and agents the test plays.
type site struct {
	t     *testing.T
	admin client.Client
	// own is the operator's own access, with no more than its rights.
	own client.WithWatch
	r   *Reconciler
	now time.Time

	// writes are those of the operator, evictions among them.
	writes apitest.Writes
	events []string
}

var installed sync.Once

// namespace is that of all pods of the tests.
const namespace = "default"

// newSite returns a cluster of two workers, w-1 and w-2.
func newSite(t *testing.T) *site {
	t.Helper()
	api := apitest.Need(t, server)
	installed.Do(func() {
		parsed, err := config.Parse([]byte(sitetest.TwoDual))
		must(t, err)
		files, err := manifests.Render(parsed, topology.Of(parsed))
		must(t, err)
		api.Install(t, files)
	})
	s := &site{t: t, now: time.Now()}
	s.admin = newClient(t, api.Config)
	s.own = newClient(t, api.AsServiceAccount(render.Namespace, render.Name))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := s.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	s.clear()
	s.join("w-1")
	s.join("w-2")
	s.restart()
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	scheme, err := kube.NewScheme()
	must(t, err)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// clear removes what another test left.
func (s *site) clear() {
	s.t.Helper()
	must(s.t, s.admin.DeleteAllOf(s.t.Context(), &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0)))
	for _, owner := range []client.Object{&appsv1.ReplicaSet{}, &appsv1.DaemonSet{}, &appsv1.StatefulSet{}} {
		must(s.t, s.admin.DeleteAllOf(s.t.Context(), owner, client.InNamespace(namespace)))
	}
	must(s.t, s.admin.DeleteAllOf(s.t.Context(), &policyv1.PodDisruptionBudget{}, client.InNamespace(namespace)))
	must(s.t, s.admin.DeleteAllOf(s.t.Context(), &corev1.Node{}))
}

func (s *site) join(name string, taints ...corev1.Taint) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
	must(s.t, s.admin.Create(s.t.Context(), n))
}

// runs makes a pod that runs on w-1, with an owner of a kind.
func (s *site) runs(name, kind string) {
	s.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "of-" + name, UID: s.owner(kind, p), Controller: new(true)}}
	}
	s.bind(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(s.t, s.admin.Status().Update(s.t.Context(), p))
}

// bind makes a pod and gives it w-1 as the scheduler does. A pod that is made with its host in its
// spec is another kind: its owner makes it there again.
func (s *site) bind(p *corev1.Pod) {
	s.t.Helper()
	must(s.t, s.admin.Create(s.t.Context(), p))
	must(s.t, s.admin.SubResource("binding").Create(s.t.Context(), p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "w-1"}}))
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(p), p))
}

// owner makes the owner of a pod. The garbage collector runs, and nobody makes more
// pods.
func (s *site) owner(kind string, p *corev1.Pod) types.UID {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "of-" + p.Name}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: corev1.PodSpec{Containers: p.Spec.Containers}}
	owner := map[string]client.Object{
		"ReplicaSet":  &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		"DaemonSet":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}},
	}[kind]
	must(s.t, s.admin.Create(s.t.Context(), owner))
	return owner.GetUID()
}

// budget makes one that lets so many pods of a name go.
func (s *site) budget(name string, allowed int32) {
	s.t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.Selector, b.Spec.MinAvailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, new(intstr.FromInt32(1))
	must(s.t, s.admin.Create(s.t.Context(), b))
	s.allows(name, allowed)
}

func (s *site) allows(name string, allowed int32) {
	s.t.Helper()
	b := &policyv1.PodDisruptionBudget{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, b))
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed, DesiredHealthy: 1, ExpectedPods: 1}
	must(s.t, s.admin.Status().Update(s.t.Context(), b))
}

// kubelet ends the pods that were evicted.
func (s *site) kubelet() {
	s.t.Helper()
	for _, p := range s.pods() {
		if p.DeletionTimestamp != nil {
			must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), &p, client.GracePeriodSeconds(0))))
		}
	}
}

func (s *site) pods() []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	must(s.t, s.admin.List(s.t.Context(), &list, client.InNamespace(namespace)))
	return list.Items
}

// names are those of the pods that are there.
func (s *site) names() string {
	s.t.Helper()
	var out []string
	for _, p := range s.pods() {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func (s *site) node() *corev1.Node {
	s.t.Helper()
	n := &corev1.Node{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: "w-1"}, n))
	return n
}

// wish writes what w-1 asks for, as its agent does.
func (s *site) wish(value string) {
	s.t.Helper()
	s.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, decide.Desired, value))
}

func (s *site) cordon(is bool) {
	s.t.Helper()
	s.patch(fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, is))
}

func (s *site) patch(text string) {
	s.t.Helper()
	must(s.t, s.admin.Patch(s.t.Context(), s.node(), client.RawPatch(types.MergePatchType, []byte(text))))
}

// restart starts an operator that knows nothing of the time before.
func (s *site) restart() {
	counted := interceptor.NewClient(s.own, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.writes.Do(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, of client.Object, opts ...client.SubResourceCreateOption) error {
			return s.writes.Do(func() error { return c.SubResource(sub).Create(ctx, o, of, opts...) })
		},
	})
	s.r = &Reconciler{Client: counted, Live: s.own, Events: s, Now: func() time.Time { return s.now }}
}

// Eventf implements events.EventRecorder.
func (s *site) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	name := about.(metav1.Object).GetName() //nolint:forcetypeassert // an object of the API
	s.events = append(s.events, name+" "+kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// told returns the events so far and forgets them.
func (s *site) told() string {
	out := strings.Join(s.events, "\n")
	s.events = nil
	return out
}

// look makes the operator look once, and returns when it looks again.
func (s *site) look() (time.Duration, error) {
	result, err := s.r.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "w-1"}})
	s.now = s.now.Add(max(result.RequeueAfter, time.Second))
	return result.RequeueAfter, err
}

// looks makes it look for as long as it wants to, or so often, while kubelet ends
// pods.
func (s *site) looks(most int) {
	s.t.Helper()
	for range most {
		again, err := s.look()
		must(s.t, err)
		if again == 0 {
			return
		}
		s.kubelet()
	}
}

// is compares what the node says.
func (s *site) is(what string, unschedulable bool, want map[string]string) {
	s.t.Helper()
	n := s.node()
	for _, name := range []string{decide.Applied, decide.CordonedBy, decide.Waits} {
		if n.Annotations[name] != want[name] {
			s.t.Errorf("%s: %s is %q, want %q", what, name, n.Annotations[name], want[name])
		}
	}
	if n.Spec.Unschedulable != unschedulable {
		s.t.Errorf("%s: unschedulable is %t", what, n.Spec.Unschedulable)
	}
}
