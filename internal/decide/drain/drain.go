// Package drain decides how a host is emptied before it boots: who is evicted, who
// stays, who is in the way, and what is written of that.
//
// A host asks by an annotation of its node, and the operator answers by another
// one, both by their upstream names. An administrator asks by a third one. All that
// the operator remembers stands in the node, so that the next one goes on where it
// was.
package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a node.
const (
	// Desired is what the host asks for: that others take its pods, or that it takes
	// pods again. Its agent writes it, and in a shutdown `holdfast-agent leave`.
	Desired = "machineconfiguration.openshift.io/desiredDrain"
	// Applied is the last wish that was carried out. The operator writes it.
	Applied = "machineconfiguration.openshift.io/lastAppliedDrain"
	// CordonedBy stands on a node that the operator has cordoned, and in no other
	// case. It holds the wish for which it did so.
	CordonedBy = state.AnnotationDomain + "cordoned-for"
	// Began is when the operator began to carry out the wish.
	Began = state.AnnotationDomain + "drain-began"
	// Waits says who is in the way.
	Waits = state.AnnotationDomain + "drain-waits"
	// Wanted is the wish of an administrator that others take the pods of the host,
	// for as long as it stands there: since when. Administrators alone write it.
	Wanted = state.AnnotationDomain + "drain-wanted"
	// Had is the wish of an administrator that was carried out last. The operator
	// writes it.
	Had = state.AnnotationDomain + "drain-done"
)

const (
	drains    = "drain-"
	uncordons = "uncordon-"
)

// Before returns the wish of a host that is to be empty for a configuration.
func Before(config string) string { return drains + config }

// After returns the wish of a host that takes pods again.
func After(config string) string { return uncordons + config }

// Empties reports whether a wish is one to be empty.
func Empties(wish string) bool { return strings.HasPrefix(wish, drains) }

// HasWanted reports whether a host is empty as an administrator wants it.
func HasWanted(annotations map[string]string) bool {
	wanted := annotations[Wanted]
	return wanted != "" && annotations[Had] == wanted
}

// purpose returns for what a host is to be empty, by its own wish or that of an
// administrator; empty if it takes pods.
func purpose(annotations map[string]string) string {
	switch own, wanted := annotations[Desired], annotations[Wanted]; {
	case Empties(own):
		return own
	case wanted != "":
		return "drain-wanted-" + wanted
	default:
		return ""
	}
}

// answered reports whether a host was told to be empty, by whoever wants that.
func answered(annotations map[string]string) bool {
	own := annotations[Desired]
	return (!Empties(own) || annotations[Applied] == own) && (annotations[Wanted] == "" || HasWanted(annotations))
}

// answer returns the annotations that tell so.
func answer(annotations map[string]string) map[string]*string {
	out := map[string]*string{Waits: nil, Began: nil}
	if own := annotations[Desired]; Empties(own) {
		out[Applied] = &own
	}
	if wanted := annotations[Wanted]; wanted != "" {
		out[Had] = &wanted
	}
	return out
}

// Emptied reports whether a host has what it asked for, by its annotations.
func Emptied(annotations map[string]string, wish string) bool {
	return annotations[Desired] == wish && annotations[Applied] == wish
}

// The pauses before the next look.
const (
	// soon is that while pods go, and often that while one is in the way.
	soon  = 2 * time.Second
	often = 5 * time.Second
	// seldom is that while one has been in the way for longer than patience.
	seldom   = time.Minute
	patience = 10 * time.Minute
	// alone is for how long a host stays cordoned while nobody else takes pods. A host that is
	// fenced, or boots, is back before.
	alone = 2 * time.Minute
	// Limit is the time after which a drain is late: a person has to do something. It
	// goes on all the same, because nobody else knows whether the host may boot.
	Limit = time.Hour
)

// Facts is what is known of a host that asks for something.
type Facts struct {
	Now  time.Time
	Node *corev1.Node
	// Others are all other nodes.
	Others []corev1.Node
	// Pods are those of the host, Budgets all disruption budgets.
	Pods    []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// Own is the pod that carries drains out.
	Own types.NamespacedName
	// Refused says of pods why the API did not evict them just now.
	Refused map[types.UID]string
}

// Change is what is written of a node, in one write.
type Change struct {
	// Annotations that are nil are removed.
	Annotations   map[string]*string
	Unschedulable *bool
	// Event says in one word what happened, and Note in a sentence. Both are empty
	// where people need not know.
	Event, Note string
}

// Step is what comes next.
type Step struct {
	// Change is nil if nothing is written.
	Change *Change
	// Evict is done after the change was written.
	Evict []corev1.Pod
	// Again is the pause before the next look, zero for none.
	Again time.Duration
}

// Begin returns the first write for a wish. No pod is evicted before the node is
// cordoned and says so, and nobody's cordon but the operator's own is taken away.
func Begin(f Facts) Step {
	a := f.Node.Annotations
	wish := purpose(a)
	switch {
	case wish == "":
		return end(f)
	case f.nowhere():
		return nowhere(f)
	case f.nobody() && !answered(a) && (!f.Node.Spec.Unschedulable || f.Now.Sub(f.nobodySince()) > alone && !f.keepsCordon()):
		return f.opens()
	case !f.Node.Spec.Unschedulable:
		return f.cordons(wish)
	case answered(a):
		return rest(f)
	case a[Began] == "":
		return Step{Change: &Change{Annotations: map[string]*string{Began: f.time()}}, Again: soon}
	case f.nobody():
		return Step{Again: f.pace()} // Judge says why
	default:
		return Step{Evict: f.sorted().evict, Again: soon}
	}
}

// cordons has a host get no new pods, because of a wish.
func (f Facts) cordons(wish string) Step {
	a := f.Node.Annotations
	values := map[string]*string{CordonedBy: &wish, Applied: nil}
	if _, had := a[Had]; had {
		values[Had] = nil
	}
	if a[Began] == "" {
		values[Began] = f.time()
	}
	return Step{Change: &Change{values, new(true), "Cordoned", f.cordonNote()}, Again: soon}
}

// opens has a host take pods that nobody else could take: others have been away for a while. Its
// wish stands, and it is cordoned anew once one of them is ready. A cordon of a person stays.
func (f Facts) opens() Step {
	_, ours := f.Node.Annotations[CordonedBy]
	if !ours || !f.Node.Spec.Unschedulable {
		return Step{Again: f.pace()} // Judge says why
	}
	words, why := f.whyNobody(), "no other host that takes pods is ready"
	if words != nobodyReady {
		why = "no other host takes pods now"
	}
	return Step{Change: &Change{
		Annotations: map[string]*string{CordonedBy: nil, Began: nil, Waits: &words}, Unschedulable: new(false),
		Event: "Uncordoned", Note: "it gets pods again, because " + why + "; its own move once one is",
	}, Again: f.pace()}
}

// cordonNote says why a host is cordoned, and how a person has it back.
func (f Facts) cordonNote() string {
	const note = "it gets no new pods, because its pods move to other hosts"
	if wanted := f.Node.Annotations[Wanted]; wanted != "" {
		return note + "; an administrator wants that since " + wanted + ", until: holdfast host uncordon " + f.Node.Name
	}
	return note
}

// end has a host take pods again that nobody wants to be empty, and answers its own
// wish.
func end(f Facts) Step {
	a := f.Node.Annotations
	wish := a[Desired]
	c := &Change{Annotations: f.left(CordonedBy, Began, Waits, Had)}
	asked := strings.HasPrefix(wish, uncordons) && a[Applied] != wish
	if asked {
		c.Annotations[Applied] = &wish
	}
	if len(c.Annotations) == 0 {
		return Step{}
	}
	switch _, ours := a[CordonedBy]; {
	case ours && f.Node.Spec.Unschedulable:
		c.Unschedulable, c.Event, c.Note = new(false), "Uncordoned", "it gets pods again"
	case asked && f.Node.Spec.Unschedulable:
		c.Event, c.Note = "StaysCordoned", "somebody else cordoned it, and it stays so"
	}
	return Step{Change: c}
}

// rest takes away what is left of a drain whose host went back to its wish before.
// The next drain would be as old as that one.
func rest(f Facts) Step {
	if left := f.left(Began, Waits); len(left) > 0 {
		return Step{Change: &Change{Annotations: left}}
	}
	return Step{}
}

// left returns the removal of those annotations that the node has.
func (f Facts) left(names ...string) map[string]*string {
	out := map[string]*string{}
	for _, name := range names {
		if _, has := f.Node.Annotations[name]; has {
			out[name] = nil
		}
	}
	return out
}

// nowhere answers a host whose pods could not move anywhere: an eviction would
// only end them, and a budget would keep the host from its change for ever.
func nowhere(f Facts) Step {
	if answered(f.Node.Annotations) {
		return rest(f)
	}
	return Step{Change: &Change{
		Annotations: answer(f.Node.Annotations),
		Event:       "NotDrained", Note: "no other host takes its pods: they stay, and are away while it boots",
	}}
}

// Judge returns what is written after pods were evicted: that the host is empty, or
// who is in the way.
func Judge(f Facts) Step {
	a := f.Node.Annotations
	p := f.sorted()
	if len(p.evict)+len(p.critical)+len(p.ending)+len(p.alone) == 0 {
		c := &Change{Annotations: answer(a), Event: "Drained", Note: "other hosts have its pods" + p.stay()}
		if wish := purpose(a); !f.Node.Spec.Unschedulable { // nobody else takes pods now, and it waits for nobody
			c.Annotations[CordonedBy], c.Unschedulable = &wish, new(true)
		}
		return Step{Change: c}
	}
	out := Step{Again: f.pace()}
	waits := f.waits(p)
	if waits == a[Waits] {
		return out
	}
	out.Change = &Change{Annotations: map[string]*string{Waits: &waits}}
	if waits == "" {
		out.Change.Annotations[Waits] = nil
	} else if a[Waits] == "" {
		out.Change.Event, out.Change.Note = "DrainWaits", waits
	}
	return out
}

// pace returns the pause before the next look: short at first, because people wait
// for what they have just asked for.
func (f Facts) pace() time.Duration {
	switch began, err := time.Parse(time.RFC3339, f.Node.Annotations[Began]); {
	case f.nobody() && f.Now.Sub(f.nobodySince()) > patience:
		return seldom
	case f.nobody():
		return often
	case len(f.Refused) == 0:
		return soon
	case err == nil && f.Now.Sub(began) > patience:
		return seldom
	default:
		return often
	}
}

// Since returns when the operator began to empty a host that asks for it and is not
// empty yet.
func Since(annotations map[string]string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, annotations[Began])
	return at, err == nil && Empties(annotations[Desired]) && annotations[Applied] != annotations[Desired]
}

func (f Facts) time() *string { return new(f.Now.UTC().Format(time.RFC3339)) }

// nowhere reports whether no other node is there that may have pods of this one, or one of the pods
// that would go. One that is away comes back, and counts.
func (f Facts) nowhere() bool {
	return !slices.ContainsFunc(f.Others, f.fits) || f.allClosed() && !f.tolerated()
}

// nobody reports whether each other node that takes pods is known not to be ready. Pods that
// were evicted then would run nowhere until one is back. An administrator's drain counts one that
// is cordoned, too. Of a host with a taint of its own the pods go to others with that taint as well.
func (f Facts) nobody() bool {
	return !f.nowhere() && !slices.ContainsFunc(f.Others, f.takes)
}

// nobodySince returns since when that is so, by the last of those nodes that went. Nobody notes
// when one was cordoned: it is not before an administrator wanted this host to be empty, by a clock
// that may be ahead, or the drain began.
func (f Facts) nobodySince() time.Time {
	var since time.Time
	if len(f.cordoned()) > 0 && f.heedsCordons() {
		for _, key := range []string{Wanted, Began} {
			if at, err := time.Parse(time.RFC3339, f.Node.Annotations[key]); err == nil && (since.IsZero() || at.Before(since)) {
				since = at
			}
		}
	}
	for _, n := range f.Others {
		if at := ready(n); f.fits(n) && at != nil && at.LastTransitionTime.After(since) {
			since = at.LastTransitionTime.Time
		}
	}
	return since
}

// away reports whether a node is known not to be ready.
func away(n corev1.Node) bool {
	c := ready(n)
	return c != nil && c.Status != corev1.ConditionTrue
}

// ready returns what a node says of its being ready, nil for nothing.
func ready(n corev1.Node) *corev1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

// closed reports whether taints keep ordinary pods away for good.
func closed(taints []corev1.Taint) bool { return slices.ContainsFunc(taints, closes) }

func closes(t corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, passing)
}

// passing begins the keys of taints that come and go with a host's health or with
// a drain.
const passing = "node.kubernetes.io/"

// nobodyReady is in the way of a drain while nobody else is there.
const nobodyReady = "no other host that takes pods is ready, and they stay until one is"

// stay says how many pods a drain leaves.
func (p pods) stay() string {
	if p.left == 0 {
		return ""
	}
	return fmt.Sprintf("; %d that belong to it stay", p.left)
}
