// Package drain is the operator's controller that empties hosts. It follows the
// annotations desiredDrain and drain-wanted of each node: it cordons the node, evicts its pods, and
// answers by lastAppliedDrain; when nobody wants the host to be empty any more it takes its own
// cordon away. Package decide/drain holds the rules.
//
// It owns the annotation lastAppliedDrain of nodes and those of decide/drain beside
// it. It deletes no pod, and takes nobody else's cordon away.
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	decide "github.com/holdfast/holdfast/internal/decide/drain"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

const (
	// lookAnew is the pause after somebody else wrote the node meanwhile.
	lookAnew = 100 * time.Millisecond
	// atOnce is how many hosts are looked at in the same moment: no host waits for the
	// webhooks that judge the pods of another one.
	atOnce = 4
	// evictLimit bounds one eviction. It is that of a webhook of the site. After so many
	// evictions of a look without an answer, evictShort bounds each other one of it: the other
	// pods go, and the host does not wait long for the next look, which may uncordon it.
	evictLimit  = 30 * time.Second
	evictSilent = 2
	evictShort  = 2 * time.Second
	// maxNote is the API's limit on the text of an event, in bytes, with room for
	// what is added.
	maxNote = 1000
	// nodeOfPod is the field by which pods of a host are listed.
	nodeOfPod = "spec.nodeName"
)

// Reconciler empties hosts, and lets them take pods again. It remembers nothing: it looks at
// several hosts at once.
type Reconciler struct {
	// Client writes, and reads nodes through the cache. Live reads the rest from the
	// API: the cache may not yet know what was written a moment ago.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
}

// SetUp makes the manager call the reconciler whenever a node asks for something.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("drain").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: asks})).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r)
}

// asks reports whether a node changed in something that the decision uses.
func asks(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	if !ok || !also || before.Spec.Unschedulable != after.Spec.Unschedulable {
		return true
	}
	for _, name := range []string{decide.Desired, decide.Applied, decide.CordonedBy, decide.Began, decide.Wanted, decide.Had} {
		if before.Annotations[name] != after.Annotations[name] {
			return true
		}
	}
	return false
}

// Reconcile does one look at one node, independent of earlier looks.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	after, err := r.look(ctx, req.Name)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the node changed after it was read
	}
	return reconcile.Result{RequeueAfter: after}, err
}

func (r *Reconciler) look(ctx context.Context, name string) (time.Duration, error) {
	n := &corev1.Node{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("read node %s: %w", name, err)
	}
	f := decide.Facts{Now: r.Now(), Node: n}
	if err := r.others(ctx, &f); err != nil {
		return 0, err
	}
	s := decide.Begin(f)
	if s.Change != nil || s.Again == 0 {
		return s.Again, r.change(ctx, n, s.Change)
	}
	if err := r.pods(ctx, &f); err != nil {
		return 0, err
	}
	if err := r.evict(ctx, &f, decide.Begin(f).Evict); err != nil {
		return 0, err
	}
	s = decide.Judge(f)
	return s.Again, r.change(ctx, n, s.Change)
}

// others adds the other nodes.
func (r *Reconciler) others(ctx context.Context, f *decide.Facts) error {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, other := range nodes.Items {
		if other.Name != f.Node.Name {
			f.Others = append(f.Others, other)
		}
	}
	return nil
}

// pods adds the pods of the host, and all disruption budgets.
func (r *Reconciler) pods(ctx context.Context, f *decide.Facts) error {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.MatchingFields{nodeOfPod: f.Node.Name}); err != nil {
		return fmt.Errorf("list the pods of %s: %w", f.Node.Name, err)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := r.Live.List(ctx, &budgets); err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	f.Pods, f.Budgets = pods.Items, budgets.Items
	for _, p := range pods.Items {
		if p.Namespace == render.Namespace && render.Runs(p.Labels) {
			f.Own = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		}
	}
	return nil
}

// evict asks the API once to evict each pod, and notes why it does not.
func (r *Reconciler) evict(ctx context.Context, f *decide.Facts, pods []corev1.Pod) error {
	f.Refused = map[types.UID]string{}
	limit, silent := evictLimit, 0
	for i := range pods {
		p := &pods[i]
		err := r.evictOne(ctx, p, limit)
		switch {
		case err == nil, gone(err):
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			f.Refused[p.UID] = fmt.Sprintf("the API did not answer within %s", limit)
			if silent++; silent >= evictSilent {
				limit = evictShort
			}
		case !answered(err):
			return fmt.Errorf("evict %s/%s: %w", p.Namespace, p.Name, err)
		default:
			f.Refused[p.UID] = refusal(err)
		}
	}
	return nil
}

// refusal says why the API evicts a pod not now. It evicts none of a namespace that is being
// deleted, whatever budgets say: the pod goes with its namespace, and is waited for as kubectl
// does.
func refusal(err error) string {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return "its namespace is being deleted, and the API evicts no pod of it: it goes with the namespace"
	}
	return err.Error()
}

// gone reports whether the API says that the pod is gone, or that another one of its name
// came. The code alone does not say it: a webhook may refuse with any code, and no reason.
func gone(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonNotFound || reason == metav1.StatusReasonConflict
}

// answered reports whether an error is the API's own answer. Such an answer need not have a reason:
// the API server fills in none where a webhook refuses without one.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// evictOne evicts the very pod that was read.
func (r *Reconciler) evictOne(ctx context.Context, p *corev1.Pod, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.Client.SubResource("eviction").Create(limited, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
}

// change writes a change of a node. It holds only for the node that was read:
// somebody may have cordoned it since.
func (r *Reconciler) change(ctx context.Context, n *corev1.Node, c *decide.Change) error {
	if c == nil {
		return nil
	}
	what := map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": c.Annotations}}
	if c.Unschedulable != nil {
		what["spec"] = map[string]any{"unschedulable": *c.Unschedulable}
	}
	patch, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write what becomes of the pods of %s: %w", n.Name, err)
	}
	if c.Event != "" {
		r.tell(ctx, n, c)
	}
	return nil
}

// warns lists the events that want a person.
var warns = map[string]bool{"DrainWaits": true, "NotDrained": true}

// tell publishes an event about a node, and logs it.
func (r *Reconciler) tell(ctx context.Context, n *corev1.Node, c *decide.Change) {
	kind, note := corev1.EventTypeNormal, c.Note
	if warns[c.Event] {
		kind = corev1.EventTypeWarning
	}
	if len(note) > maxNote {
		note = note[:maxNote] + " ..."
	}
	log.FromContext(ctx).Info(note, "node", n.Name, "reason", c.Event)
	r.Events.Eventf(n, nil, kind, c.Event, "Drain", "%s", note)
}
