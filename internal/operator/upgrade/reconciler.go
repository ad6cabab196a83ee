// Package upgrade is the operator's controller of upgrades. It gathers the facts of a
// site, asks package decide/upgrade for the next step, writes the record of the upgrade,
// gives hosts their turns, and says in ClusterVersion and ClusterOperators how far it is.
//
// It alone writes the ConfigMap kube-system/holdfast-upgrade, the status of
// ClusterVersion, the annotations upgrade-turn, upgrade-fetch and upgrade-part of nodes, and, of the
// ClusterOperators, its own conditions. Like administrators it writes backup-wanted to a node, for the
// backup before an upgrade and before its commit. It remembers nothing that matters: an operator
// that is killed between any two writes goes on from what the API has. While nobody has
// asked for an upgrade it gives hosts nothing.
package upgrade

import (
	"context"
	"errors"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses before a look at the cluster that no event asked for.
const (
	lookAnew = 100 * time.Millisecond
	// underWay is that during an upgrade, and atRest that while there is none.
	underWay = 10 * time.Second
	atRest   = 2 * time.Minute
)

// Reconciler takes a site from one release to another.
type Reconciler struct {
	// Client writes. Live reads from the API: the cache may not yet know what this
	// reconciler wrote a moment ago.
	Client client.Client
	Live   client.Reader
	// Events publishes events for people.
	Events events.EventRecorder
	Now    func() time.Time
	// Etcd asks the members of etcd on control planes, by their addresses. One that does
	// not answer is missing. Equal compares the data of all of them.
	Etcd  func(ctx context.Context, addresses map[string]string) map[string]survey.Member
	Equal func(ctx context.Context, addresses map[string]string) state.Fact[bool]
	// Deprecated asks the API servers, by their addresses, which APIs that Kubernetes
	// removes they were asked for. One that does not answer is missing.
	Deprecated func(ctx context.Context, addresses map[string]string) map[string][]gate.Use
	// Refuses asks the API server of a host, by its address, which of the objects that lie
	// there it refuses, each with the reason.
	Refuses func(ctx context.Context, host, address string) ([]string, error)
	// Ask asks a server for a path of a host over plain HTTP, and returns the status of its
	// answer, 0 without one. Without it no router is asked.
	Ask func(ctx context.Context, server, host, path string) int
	// TwoNode is true if Pacemaker runs etcd.
	TwoNode bool

	// kept is what was read and may be some minutes old.
	kept kept
	// told is the last step that people were told of, and unwell since when parts are.
	told   string
	unwell map[string]time.Time
	// looks tells whether this operator works.
	looks looks
}

// Reconcile does one look, independent of earlier looks.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: lookAnew}, nil // the cluster changed after it was read
	}
	if err == nil {
		r.looks.ended(r.Now())
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// step writes the record before anything that follows from it.
func (r *Reconciler) step(ctx context.Context) (time.Duration, error) {
	version, made, err := r.version(ctx)
	if err != nil || made {
		return lookAnew, err
	}
	book, err := r.book(ctx)
	if err != nil {
		return 0, err
	}
	if book.unreadable != nil {
		return atRest, r.stopped(ctx, version, book.unreadable)
	}
	g, err := r.gather(ctx, version, book)
	if err != nil {
		return 0, err
	}
	next, judged := g.survey.Next()
	next.Refused = g.refused(next, judged)
	if matters(g.seen.Now, book.record, next) {
		if len(judged.Risks) > 0 { // later the gate may not be asked any more
			if err := r.report(ctx, g, next, judged); err != nil {
				return 0, err
			}
		}
		return lookAnew, r.write(ctx, g, next)
	}
	if err := errors.Join(r.turns(ctx, g, next), r.bring(ctx, g, next), r.asks(ctx, g), r.remember(ctx, g)); err != nil {
		return 0, err
	}
	next = g.withPart(next)
	r.tell(ctx, g, next)
	measure(g, next, judged)
	return pause(book.record, next), errors.Join(r.report(ctx, g, next, judged), r.operators(ctx, g, next))
}

func pause(r cluster.Record, next cluster.Step) time.Duration {
	if r.Started || next.Phase != cluster.Idle {
		return underWay
	}
	return atRest
}

// soakNoted is how often the time of a soak is written.
const soakNoted = time.Minute

// matters reports whether the record that a step wants has to be written. How long a site
// has been healthy is written once in a while.
func matters(now time.Time, have cluster.Record, next cluster.Step) bool {
	want := next.Record
	if next.Do != cluster.Write && !have.Started {
		return false
	}
	a, b := annotation.RecordOf(have), annotation.RecordOf(want)
	if soaks := !have.Seen.IsZero() && !want.Seen.IsZero() && now.Sub(have.Seen).Abs() < soakNoted; soaks {
		a.Seen, a.Healthy, b.Seen, b.Healthy = time.Time{}, 0, time.Time{}, 0
	}
	if now.Sub(have.Rollout.Seen).Abs() < soakNoted && !want.Rollout.Seen.IsZero() {
		a.Rollout.Seen, b.Rollout.Seen = time.Time{}, time.Time{}
	}
	return !sameRecord(a, b)
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
	r.Events.Eventf(about, nil, kind, reason, "Upgrade", "%s", text)
}

// tell makes an event of each new step. A process that has just started tells of the
// present one again.
func (r *Reconciler) tell(ctx context.Context, g *gathered, next cluster.Step) {
	text := string(next.Phase) + ": " + said(next).Why
	if next.Refused != "" {
		text += ". Refused: " + next.Refused
	}
	if text == r.told || next.Phase == cluster.Idle && next.Refused == "" && r.told == "" {
		r.told = text
		return
	}
	r.told = text
	kind := corev1.EventTypeNormal
	if next.Do == cluster.Pause || next.Refused != "" {
		kind = corev1.EventTypeWarning
	}
	r.event(ctx, g.version, kind, "Upgrade"+string(next.Phase), text)
}

// gathered holds the findings of one look at the cluster.
type gathered struct {
	version *configv1.ClusterVersion
	book    book
	seen    survey.Seen
	survey  survey.Survey
	works   works
}
