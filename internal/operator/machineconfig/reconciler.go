// Package machineconfig is the operator's controller of the configurations of
// hosts. It merges the MachineConfigs of each pool into one rendered object, gives
// hosts their configuration by the annotation desiredConfig, and says in the
// status of the pools how far that is. Packages decide/machineconfig and
// decide/rollout hold the rules; the agent of each host applies what it is given. It
// also gives hosts their turn for a reboot that somebody wants.
package machineconfig

import (
	"context"
	"errors"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew = 100 * time.Millisecond
	resync   = 30 * time.Second
)

// Settle is the time for which a pool's configuration stays unchanged before a
// host is given it: people apply several objects one after the other, and a host
// that is given the first of them may boot for each.
const Settle = 5 * time.Second

// Reconciler keeps the configurations of pools.
type Reconciler struct {
	// Client reads MachineConfigs through the cache. Live reads everything from
	// which hosts are chosen from the API: the cache may not yet know what this
	// reconciler wrote a moment ago.
	Client client.Client
	Live   client.Reader
	// Events publishes events for people.
	Events events.EventRecorder
	Now    func() time.Time
	// Serves asks the members of etcd on control planes, by their addresses,
	// whether they serve as voters.
	Serves func(ctx context.Context, addresses map[string]string) map[string]state.Fact[bool]
	// Record returns the text of the record of an upgrade; nil on a cluster that knows no
	// upgrades.
	Record func(context.Context) (state.Fact[string], error)
	// Operator is the host on which this process runs, if that is known.
	Operator string
	// TwoNode is true if Pacemaker runs etcd.
	TwoNode bool
	// Mirrors is true if the cluster has the kinds that name mirrors for all hosts
	// (KnownMirrors).
	Mirrors bool

	// targets are the configurations of the pools at the last look.
	targets map[string]target
	// told is why hosts were last said to be in no pool.
	told map[string]string
}

// target is a configuration, and since when it is that of its pool.
type target struct {
	name  string
	since time.Time
}

// Reconcile does one look, independent of earlier looks.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// step makes sure that a rendered object exists and that a host knows who boots it
// before the host is given it, and deletes an object only after.
func (r *Reconciler) step(ctx context.Context) (time.Duration, error) {
	if made, err := r.keepPools(ctx); made || err != nil {
		return lookAnew, err
	}
	g, err := r.gather(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.keepRendered(ctx, g); err != nil {
		return 0, err
	}
	if wrote, err := r.sayWhoBoots(ctx, g); wrote || err != nil {
		return lookAnew, err
	}
	d := rollout.Decide(g.site)
	if err := errors.Join(r.give(ctx, g, d.Set), r.turns(ctx, g, d.Wishes), r.report(ctx, g, d), r.reportKubelet(ctx, g), r.reportProxy(ctx, g)); err != nil {
		return 0, err
	}
	r.tellAstray(g, d.Astray)
	return g.again, r.collect(ctx)
}

// maxNote is the API's limit on the text of an event, in bytes, with room for
// what is added.
const maxNote = 1000

// event publishes an event about an object, and logs it.
func (r *Reconciler) event(ctx context.Context, about runtime.Object, kind, reason, text string) {
	if len(text) > maxNote {
		text = text[:maxNote] + " ..."
	}
	log.FromContext(ctx).Info(text, "reason", reason)
	r.Events.Eventf(about, nil, kind, reason, "Configure", "%s", text)
}

// tellAstray makes an event of each host that no pool configures. A host that
// joins gets its labels a little later.
func (r *Reconciler) tellAstray(g *gathered, list []rollout.Astray) {
	told := map[string]string{}
	for _, a := range list {
		n := g.nodes[a.Host]
		if n == nil || r.Now().Sub(n.CreationTimestamp.Time) < rollout.AnswerLimit {
			continue
		}
		if told[a.Host] = a.Why; r.told[a.Host] != a.Why {
			r.Events.Eventf(n, nil, corev1.EventTypeWarning, "NoMachineConfigPool", "Configure", "%s", a.Why)
		}
	}
	r.told = told
}

// wantedPools returns the pools that every site has. Their roles are those that
// the agents of control planes give to nodes.
func wantedPools() []*mcfgv1.MachineConfigPool {
	return []*mcfgv1.MachineConfigPool{
		newPool(rollout.Master, state.LabelControlPlane),
		newPool(rollout.Worker, state.LabelWorker),
	}
}
