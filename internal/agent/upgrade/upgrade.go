// Package upgrade takes this host to the release for which it has its turn, and back,
// and tells the cluster what the host is like.
//
// It owns the folder Folder, the annotation annotation.HostOf of this host's node, the
// units of the parachute while the host is on a way, and the links in
// payload.ReleasesDir that choose a release (install/release). It reads the
// annotation annotation.TurnOf. While that names no way and the host is on none, it
// changes nothing.
//
// decide/upgrade/parachute decides. The agent goes forward by it; Parachute, a
// program of the old release that a timer and each boot start, only goes back. Both
// read and write one journal, one at a time.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses and limits of the loop.
const (
	// onTheWay is the pause between two looks at a host that is on a way.
	onTheWay = 2 * time.Second
	// waiting is the pause while the host holds, or waits for others.
	waiting = 5 * time.Second
	// retry and maxRetry are those after an error.
	retry    = 2 * time.Second
	maxRetry = 30 * time.Second
	// limit bounds a run: a stop of Pacemaker takes most of it.
	limit = 10 * time.Minute
	// tellLimit bounds a request to the API.
	tellLimit = 10 * time.Second
)

// Releases is what lies on this host. Fetching is the work of another package; this
// one asks.
type Releases interface {
	// Whole lists the digests of the releases of which layout, programs and images lie
	// here and were compared with the digest.
	Whole(ctx context.Context) state.Fact[[]string]
	// Placed reports whether layout and programs of a release lie here. It asks nobody for
	// its images.
	Placed(digest string) bool
	// About returns what a release that lies here says of itself.
	About(digest string) (gate.Release, error)
	// Fetching says how far a fetch is, empty while there is none, and why the last
	// one failed.
	Fetching() (how, failed string)
}

// Host holds the effects on this host. Each act can be done again, and returns once
// it is done.
type Host struct {
	Journal Store
	// Boot names the present boot, and says for how long it lasts.
	Boot func() (string, time.Duration, error)
	// Running is the release to which the link leads, empty without one. Previous is
	// the one to which a return would lead.
	Running, Previous func() (string, error)
	// Daemons reports whether all daemons of this host are those of a release.
	Daemons func(ctx context.Context, release string) (bool, error)
	// Quiet reports whether etcd has left and the daemons have ended.
	Quiet func(ctx context.Context) (bool, error)
	// Armed reports whether the parachute of a release is ready, and runs at boot.
	Armed func(ctx context.Context, release string) (bool, error)
	// Kept reports whether the parachute of a release still lies here, with the pods of its way,
	// whoever wrote it. Its units may have another text than this release would write.
	Kept func(release string) bool
	// Hangs counts how often the agent was killed because it hung, since Arm.
	Hangs func() (int, error)
	// Serves reports whether this host's API server answers and its etcd commits,
	// PeerServes whether those of another control plane do.
	Serves, PeerServes func(ctx context.Context) state.Fact[bool]
	// Spare reports whether two other control planes serve, and whether only one other has a Node.
	// It is asked of one of three.
	Spare func(ctx context.Context) (spare state.Fact[bool], few bool)
	// PeerGone reports whether the other one of two control planes was taken out for good, and
	// no other machine has its place.
	PeerGone func() bool
	// Apart reports whether Corosync has no other host. It is asked of one of two.
	Apart func(ctx context.Context) state.Fact[bool]
	// Newer names what of the data of this host a release cannot read.
	Newer func(release, now string) state.Fact[string]
	// Held is the release whose kubelet this host starts, if that is not the running one.
	Held func() (string, error)
	// Low lists the static pods that are told to behave as an older minor release of
	// Kubernetes, the API server first. Rise has one of them behave as what it is.
	Low  func() ([]string, error)
	Rise func(pod string) error
	// Emulates reports whether this host's API server behaves as an older minor release.
	Emulates func(ctx context.Context) state.Fact[bool]
	// RaiseKubelet lets kubelet be that of the running release from its next start on.
	RaiseKubelet func(ctx context.Context) error
	// Prove gathers what the running release shows.
	Prove func(ctx context.Context, release string) parachute.Proof

	// GiveLead moves etcd's leadership away from this host, and reports whether it is
	// elsewhere.
	GiveLead func(ctx context.Context) (bool, error)
	// Stop has etcd leave in order, and ends the daemons, the agent not among them.
	Stop func(ctx context.Context) error
	// Ready finds out whether Arm can do its work on the way from one release to another, and
	// keeps of the disk what a return needs.
	Ready func(ctx context.Context, from, to string) error
	// Arm prepares the pods and files of both releases, and lets the parachute of the first
	// one run from now on and at each boot. It returns arguments and files that stay, because
	// they are not as the running release gave them. Disarm ends that.
	Arm    func(ctx context.Context, from, to string) (kept []string, err error)
	Disarm func(ctx context.Context) error
	// Switch has the one link lead to the release that the journal names.
	Switch func(ctx context.Context) error
	// Start starts the daemons of the release to which the link leads, where they do not
	// run; the agent last.
	Start func(ctx context.Context) error
	// Return has the parachute run now.
	Return func(ctx context.Context) error
}

// Options holds what New needs.
type Options struct {
	Host
	Kind parachute.Kind
	Now  func() time.Time
	// Event takes in what the host is about to do, for reports of incidents.
	Event    func(state.Event)
	Releases Releases
	// PartFailed is why a part of a release was not brought by this host; nil if it
	// brings none.
	PartFailed func() (why string, undone bool)
	// Gather returns the facts of this host that the gates ask for.
	Gather func(ctx context.Context) gate.Host
}

// Cluster is what the host knows of its cluster, and its way to it.
type Cluster struct {
	// SetAnnotations writes annotations of a node by the account of kubelet.
	SetAnnotations func(ctx context.Context, node string, values map[string]*string) error
	// View returns the view of the host's network.
	View func() state.NetworkView
	// Leave gives the virtual IPs of this host away, as far as another host takes
	// them, within a few seconds. stay lets the host have them again.
	Leave func(ctx context.Context) (stay func())
}

// Agent is the two loops of one host: one acts, the other one tells.
type Agent struct {
	Options
	cluster      Cluster
	wake, tellIt loop.Kick

	mu    sync.Mutex
	self  state.Node // as the watch has it
	heard bool
	// stay takes the departure of the virtual IPs back; nil while they may be here.
	stay func()
	// freed is since when others of the new release lead and may have the virtual IPs.
	// Only the loop that acts uses it.
	freed time.Time
	// missed is when no other control plane was known to serve last, and missing since when none
	// has been, zero while one is. Only the loop that acts uses them.
	missed, missing time.Time
	// shown is what the running release showed at the last look. Only the loop that acts uses it.
	shown parachute.Proof
	// rising is what was last said of a raise. failing is the act that failed last. Only the
	// loop that acts uses it.
	rising  string
	failing failing
	// at and held are for those who are told.
	at   parachute.Journal
	held string

	// Only the telling loop uses told, which it wrote last.
	told annotation.Host
}

// New returns the loops of a host. Join gives them their cluster.
func New(o Options) *Agent {
	return &Agent{Options: o, wake: loop.NewKick(), tellIt: loop.NewKick()}
}

// Join gives the loops their cluster. Call it before the tasks run.
func (a *Agent) Join(c Cluster) { a.cluster = c }

// Task returns the loop that acts. It runs when the turn of this host changes, and
// while the host is on a way.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "upgrade", Wake: a.wake, Retry: retry, MaxRetry: maxRetry, RetryAnew: true, Limit: limit, Spared: true, Step: a.step}
}

// Nodes hears the nodes of the API.
func (a *Agent) Nodes(list []state.Node) {
	name := a.cluster.View().Host.NodeName
	i := slices.IndexFunc(list, func(n state.Node) bool { return n.Name == name })
	if i < 0 {
		return
	}
	a.mu.Lock()
	changed := !a.heard || about(a.self) != about(list[i])
	a.self, a.heard = list[i], true
	a.mu.Unlock()
	if changed {
		a.wake.Kick()
	}
}

// concerns are the annotations of a node that wake the loop.
type concerns struct{ turn, wish, drained string }

func about(n state.Node) concerns {
	return concerns{n.Annotations[annotation.TurnOf], n.Annotations[drain.Desired], n.Annotations[drain.Applied]}
}

// node returns this host's node, as the watch has it.
func (a *Agent) node() (state.Node, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.self, a.heard
}

// turn returns what the cluster wants of this host. It is unknown while the API was
// not heard, and where a later release wrote it.
func (a *Agent) turn() state.Fact[annotation.Turn] {
	n, heard := a.node()
	if !heard {
		return state.Fact[annotation.Turn]{}
	}
	return turnIn(n.Annotations)
}

// turnIn reads it from the annotations of the node.
func turnIn(annotations map[string]string) state.Fact[annotation.Turn] {
	t, err := annotation.Decode[annotation.Turn](annotations[annotation.TurnOf])
	if err != nil {
		return state.Fact[annotation.Turn]{}
	}
	if t.Wish == "" {
		t.Wish = parachute.Stay
	}
	return state.Known(t)
}

// step makes one decision and carries it out. On a host that is at rest and has no turn
// it asks nobody.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	turn := a.turn()
	j, _, err := a.Journal.Read()
	if err == nil && j.Step.AtRest() && !asks(j, turn) && !a.Journal.Down() {
		a.note(j, "")
		return loop.Result{}, a.settle(ctx)
	}
	before, action, err := a.decide(ctx, a.Now, a.facts(turn), func(parachute.Journal, parachute.Action) bool { return true })
	if errors.Is(err, ErrBusy) {
		return loop.Result{Again: onTheWay}, nil // the parachute decides
	}
	if err != nil {
		return loop.Result{}, err
	}
	a.note(action.Journal, a.holding(action))
	out := loop.Result{Changed: a.changed(before, action)}
	if out.Changed != "" {
		a.Event(state.PlanEvent(out.Changed))
	}
	if action.Remain {
		a.remain()
	}
	err = a.do(ctx, action)
	a.tried(action, err)
	switch {
	case err != nil:
	case action.Act == parachute.Rest, action.Act == parachute.Hold && action.Journal.Step.AtRest():
		err = a.settle(ctx)
		if asks(action.Journal, turn) { // a turn may close the way back and raise the host in one word
			out.Again = waiting
		}
	case action.Act == parachute.Hold, action.Act == parachute.Prove:
		out.Again = waiting
	default:
		out.Again = onTheWay
	}
	return out, err
}

// asks reports whether a turn is to be answered by a host at rest.
func asks(j parachute.Journal, turn state.Fact[annotation.Turn]) bool {
	t := turn.Value
	return turn.Known && (!j.Empties.IsZero() || t.Raise && t.Closed || t.Wish == parachute.Go || t.Wish == parachute.GoBack || t.Closed && !j.Closed && j.Step == parachute.Accepted)
}

// changed says in one line what became of a way, or what is raised now.
func (a *Agent) changed(before parachute.Journal, action parachute.Action) string {
	raises := action.Act == parachute.RaiseServers || action.Act == parachute.RaiseKubelet
	begins := action.Act == parachute.DoEmpty && before.Empties.IsZero()
	if before.Step == action.Journal.Step && !begins && (!raises || action.Why == a.rising) {
		return ""
	}
	if raises {
		a.rising = action.Why
	}
	return fmt.Sprintf("upgrade %s: %s: %s", action.Journal.Upgrade, action.Journal.Step, action.Why)
}

// note keeps what those are told who ask, and has it told at once if it is new.
func (a *Agent) note(j parachute.Journal, held string) {
	a.mu.Lock()
	same := reflect.DeepEqual(a.at, j) && a.held == held
	a.at, a.held = j, held
	a.mu.Unlock()
	if !same {
		a.tellIt.Kick()
	}
}

// armNow makes the parachute ready, and says what stays as it is.
func (a *Agent) armNow(ctx context.Context, j parachute.Journal) error {
	kept, err := a.Arm(ctx, j.From, j.To)
	if err == nil && len(kept) > 0 {
		a.Event(state.PlanEvent(fmt.Sprintf("upgrade %s: not as their release gave them, and left alone: %s", j.Upgrade, strings.Join(kept, ", "))))
	}
	return err
}

// do carries an action out.
func (a *Agent) do(ctx context.Context, action parachute.Action) error {
	j := action.Journal
	switch action.Act {
	case parachute.Rest, parachute.Prove, parachute.Hold:
		return nil
	case parachute.DoPrepare:
		return a.prepare(ctx, j)
	case parachute.DoEmpty:
		return a.empty(ctx, j)
	case parachute.DoLeave:
		if err := a.Journal.SetDown(true); err != nil {
			return err // it would be down, and nobody would know it
		}
		return a.Stop(ctx)
	case parachute.Arm:
		return a.armNow(ctx, j)
	case parachute.Switch:
		return a.Switch(ctx)
	case parachute.Start:
		return a.Start(ctx)
	case parachute.Accept:
		return a.Disarm(ctx)
	case parachute.RaiseServers:
		return a.raiseServers(ctx)
	case parachute.RaiseKubelet:
		return a.raiseKubelet(ctx)
	case parachute.Undo:
		a.remain()
		return errors.Join(a.Start(ctx), a.Disarm(ctx))
	case parachute.SwitchBack:
		return a.goBack(ctx, j)
	}
	return nil
}

// goBack has the parachute return. Once the link leads to the old release, only what
// does not run is started.
func (a *Agent) goBack(ctx context.Context, j parachute.Journal) error {
	running, err := a.Running()
	if err := errors.Join(err, a.Journal.SetDown(true)); err != nil {
		return err
	}
	if running == j.From {
		return a.Start(ctx)
	}
	if err := a.arm(ctx, j); err != nil {
		return err
	}
	a.makeWay(ctx)
	return a.Return(ctx)
}

// arm makes the parachute ready, where it is not: after the end of a way it is gone. One that lies
// there is left alone: the release to which the host returns has written it, and this one may write
// other texts, or know less of the files of both.
func (a *Agent) arm(ctx context.Context, j parachute.Journal) error {
	if a.Kept(j.From) {
		return nil
	}
	armed, err := a.Armed(ctx, j.From)
	if err != nil || armed {
		return err
	}
	return a.armNow(ctx, j)
}

// empty asks the operator to move the pods.
func (a *Agent) empty(ctx context.Context, j parachute.Journal) error {
	n, _ := a.node()
	if wish := drain.Upgrade(j.Upgrade); a.drains() && n.Annotations[drain.Desired] != wish {
		return a.annotate(ctx, drain.Desired, wish)
	}
	return nil
}

// emptied reports whether other hosts have the pods of this one, or there is no other host.
func (a *Agent) emptied(j parachute.Journal) bool {
	n, _ := a.node()
	return !a.drains() || drain.Emptied(n.Annotations, drain.Upgrade(j.Upgrade))
}

// prepare gives away what has to move, and asks the operator to move the pods, once nothing is
// known that would hold the host after it has left.
func (a *Agent) prepare(ctx context.Context, j parachute.Journal) error {
	if err := a.Ready(ctx, j.From, j.To); err != nil {
		return err // it still serves
	}
	if err := a.empty(ctx, j); err != nil {
		return err
	}
	a.depart(ctx)
	_, err := a.GiveLead(ctx)
	return err
}

// drains reports whether another host could take the pods of this one.
func (a *Agent) drains() bool {
	v := a.cluster.View()
	for _, n := range v.Nodes.Value {
		if n.Name != v.Host.NodeName && n.Ready {
			return true
		}
	}
	return false
}

// settle ends what only a way needs: pods come back, and so do virtual IPs.
func (a *Agent) settle(ctx context.Context) error {
	a.remain()
	n, heard := a.node()
	if wish := n.Annotations[drain.Desired]; heard && drain.OfUpgrade(wish) {
		return a.annotate(ctx, drain.Desired, drain.AfterUpgrade(wish))
	}
	return nil
}

func (a *Agent) annotate(ctx context.Context, name, value string) error {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	return a.cluster.SetAnnotations(ctx, a.cluster.View().Host.NodeName, map[string]*string{name: &value})
}
