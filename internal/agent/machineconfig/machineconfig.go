// Package machineconfig takes this host to the machine configuration that its
// node names, or back to the last good one. A host that joins is taken to the one
// that came with its Ignition config, before its kubelet starts.
//
// It also boots the host, or has it get the updates of its distribution, when somebody
// wants that and the operator gives it its turn.
//
// It owns the journal of that way (adapter/hostconfig), the request for updates
// (adapter/updates), and the annotations currentConfig, state, reason, desiredDrain,
// machine-config-stage, machine-config-blocked, reboot-from, reboot-done, reboot-required,
// patch-from, patch-done and patch-result of this host's node. The operator removes state, reason and
// machine-config-stage, which are about the configuration before, when it gives another one.
// In a shutdown that a person has begun it gives the virtual IPs away and ends the API
// server, as before a boot of its own, and it starts holdfast-leave.service again where
// the shutdown did not come.
//
// decide/hostapply decides; holdfast-configure.service writes files, because the
// agent may not write everywhere; the operator moves the host's pods. The agent boots
// the host, unless its pool leaves that to a person.
package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	adapter "github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses.
const (
	// driftEvery is the pause between two looks at what somebody may have changed.
	driftEvery = 10 * time.Minute
	// onTheWay is the pause between two looks at a host that is checked, or that
	// waits for others.
	onTheWay = 5 * time.Second
	// retry and maxRetry are those while the API does not answer.
	retry    = 5 * time.Second
	maxRetry = time.Minute
	// tellLimit bounds a report, and askLimit a question: without the API the host
	// goes on.
	tellLimit = 10 * time.Second
	askLimit  = 20 * time.Second
	// limit bounds a run. It is longer than all that a unit and a boot loader's tool
	// may take.
	limit = 30 * time.Minute
)

// API is the part of the API that the host needs, by its kubelet's account.
type API interface {
	MachineConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error)
	// NodeReady reports whether a node is ready, as the API has it now.
	NodeReady(ctx context.Context, node string) (bool, error)
	// NodePressures returns the conditions in which kubelet ends pods of a node; none if it ends none.
	NodePressures(ctx context.Context, node string) ([]corev1.NodeConditionType, error)
	SetAnnotations(ctx context.Context, node string, values map[string]*string) error
}

// Host holds the effects on this host.
type Host struct {
	Store hostconfig.Store
	// Configure has the configuration written that the journal names.
	Configure func(ctx context.Context, name string) error
	// Refusal and Differences compare the host with a configuration.
	Refusal     func(ctx context.Context, of Config) (string, error)
	Differences func(ctx context.Context, of Config) ([]string, error)
	// SurroundingUnits writes the units by which a host reads its proxy and its
	// authorities, where an earlier release has installed it without.
	SurroundingUnits func(ctx context.Context) error
	// Systemctl runs systemctl.
	Systemctl func(ctx context.Context, args ...string) ([]byte, error)
	// Locks returns those that programs hold at logind.
	Locks func(ctx context.Context) ([]hostapply.Lock, error)
	// Parameter and SetParameter are about a kernel parameter by its path below
	// /proc/sys.
	Parameter    func(name string) (string, error)
	SetParameter func(name, value string) error
	// Updates is the folder about updates, and Required says whether the distribution
	// wants a reboot.
	Updates  adapter.Store
	Required func(ctx context.Context) updates.Required
	// Boot names the present boot, and says how long ago it was.
	Boot func() (id string, uptime time.Duration, err error)
	// CommandLine is the kernel's.
	CommandLine func() (string, error)
	// Kubelet reports whether kubelet is healthy.
	Kubelet func(ctx context.Context) bool
	// First returns the configuration that came with the host's Ignition config, nil
	// if none did.
	First func() (*mcfgv1.MachineConfig, error)
	// Joined reports whether the host is, or was, a node of its cluster.
	Joined func() bool
}

// Options holds what New needs.
type Options struct {
	Host
	Now func() time.Time
	// Event takes in what the host is about to do, for reports of incidents.
	Event func(state.Event)
}

// Cluster is what the host knows of its cluster, and its way to it.
type Cluster struct {
	API
	// View returns the view of the host's network.
	View func() state.NetworkView
	// MayBoot says whether the cluster carries on while this host boots, by what the
	// host itself sees now, and why not.
	MayBoot func(ctx context.Context) (state.Fact[bool], string)
	// Idle reports whether this host is known to carry nothing of the cluster, whoever is
	// absent.
	Idle func(ctx context.Context) bool
	// Leave gives the virtual IPs of this host away, as far as another host takes
	// them, within a few seconds. stay lets the host have them again.
	Leave func(ctx context.Context) (stay func())
	// GiveLead has another member of etcd lead, as far as one serves as a voter, within
	// two seconds. On two hosts the etcd keeper does that as it leaves.
	GiveLead func(ctx context.Context)
	// EndAPI asks this host's API server, if it has one, to end in order, so that
	// clients go to another one before etcd leaves. It waits a short time for requests
	// that are being answered. kubelet starts the API server again.
	EndAPI func(ctx context.Context)
	// EndAnew ends that one at once.
	EndAnew func()
	// MayHalt says whether etcd of this host, one of two, has to be stopped before a shutdown in
	// the place of Pacemaker, and the other host goes on without it. Halt has it stopped: it leaves
	// in order. Unhalt has it started again. All are nil on other hosts.
	MayHalt      func(ctx context.Context) (state.Fact[bool], string)
	Halt, Unhalt func(ctx context.Context) error
}

// Agent is the loop of one host.
type Agent struct {
	Options
	cluster Cluster
	wake    loop.Kick

	mu    sync.Mutex
	self  state.Node // as the watch has it
	heard bool
	said  hostapply.Report // for the metrics

	out departure

	// Only the loop uses the fields below. The journal is the one on the disk; did and
	// failed are those of hostapply.Facts.
	journal *hostapply.Journal
	did     hostapply.Do
	failed  string
	// serves is the wish that the present step is about: a person may write another one meanwhile.
	serves rollout.Wish
	// booted is when systemd was last asked to boot the host.
	booted time.Time
	// watch is since when a host is watched that has booted as somebody wanted.
	watch struct {
		wish  string
		since time.Time
	}
	// needed: the cluster does not carry on without this host. turns is since when that is
	// otherwise, zero if it is not.
	needed struct {
		is    bool
		turns time.Time
	}
	// calm is since when this process has seen that kubelet, which has other settings, ends no
	// pods.
	calm time.Time
	// patch is what this process knows of the unit that installs updates.
	patch patching
	// drift is what somebody changed, when it was looked for last.
	drift  []string
	looked time.Time
	// unseen is why the last look for that failed. It keeps the host from nothing else.
	unseen error
}

// New returns the loop of a host. Join gives it its cluster.
func New(o Options) *Agent {
	return &Agent{Options: o, wake: loop.NewKick(), out: departure{wake: loop.NewKick(), ran: true}}
}

// Join gives the loop its cluster. Call it before the task runs.
func (a *Agent) Join(c Cluster) { a.cluster = c }

// Task returns the loop. It runs when the node of this host changes, and on a host
// that never had a configuration at no other time.
func (a *Agent) Task() loop.Task {
	return loop.Task{
		Name: "machine configuration", Wake: a.wake, Retry: retry, MaxRetry: maxRetry, RetryAnew: true, Limit: limit, Spared: true, Step: a.step,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) && a.unused() }, // no access to the API yet
	}
}

// unused reports whether the host never had a configuration.
func (a *Agent) unused() bool { return a.journal != nil && *a.journal == (hostapply.Journal{}) }

// Nodes hears the nodes of the API.
func (a *Agent) Nodes(list []state.Node) {
	name := a.cluster.View().Host.NodeName
	for _, n := range list {
		if n.Name != name {
			continue
		}
		a.mu.Lock()
		changed := !a.heard || !maps.Equal(about(a.self), about(n))
		a.self, a.heard = n, true
		a.mu.Unlock()
		if changed {
			a.wake.Kick()
			a.out.wake.Kick()
		}
	}
}

// about returns the annotations of a node about its configuration.
func about(n state.Node) map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		rollout.CurrentConfig, rollout.DesiredConfig, rollout.StateOf, rollout.StageAt, rollout.ReasonOf, rollout.BlockedOf, rollout.Reboot, drain.Desired, drain.Applied,
		rollout.RebootWanted, rollout.RebootFrom, rollout.RebootGiven, rollout.RebootDone, rollout.RebootRequired,
		rollout.PatchWanted, rollout.PatchFrom, rollout.PatchGiven, rollout.PatchDone, rollout.PatchResult,
	} {
		if value, ok := n.Annotations[name]; ok {
			out[name] = value
		}
	}
	return out
}

// desired returns the configuration that the host is to have.
func (a *Agent) desired() state.Fact[string] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return state.Fact[string]{Known: a.heard, Value: a.self.Annotations[rollout.DesiredConfig]}
}

// first keeps the configuration that this host is to have before it joins, and
// returns its name; empty if there is none.
func (a *Agent) first() (string, error) {
	if a.Joined() {
		return "", nil
	}
	mc, err := a.First()
	if err != nil || mc == nil {
		return "", err
	}
	return mc.Name, a.Store.PutConfig(mc)
}

// step makes one decision, tells it and does it.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	if a.journal == nil {
		j, err := a.Store.Journal()
		if err != nil {
			return loop.Result{}, a.cannotSay(ctx, err)
		}
		a.journal = &j
	}
	a.serves = a.wanted()
	desired := a.desired()
	first := a.unused() && desired.Value == ""
	if first {
		name, err := a.first()
		if err != nil || name == "" {
			return loop.Result{}, err
		}
		desired = state.Known(name)
	}
	facts, missing, err := a.facts(ctx, desired)
	if err != nil {
		return loop.Result{}, a.cannot(ctx, desired, err)
	}
	facts.First = first
	s := hostapply.Next(*a.journal, facts)
	before := *a.journal
	if err := a.remember(s.Journal); err != nil {
		return loop.Result{}, a.cannot(ctx, desired, err)
	}
	report := without(missing, s.Report.Changed(a.drift))
	says := a.aboutWish(report, facts)
	says[rollout.RebootRequired] = a.required(ctx, requiredEvery).String()
	if wish := a.wish(ctx, s.Report, desired, missing); wish != "" {
		says[drain.Desired] = wish
	}
	untold := a.tell(ctx, report, says)
	acted := a.do(ctx, s)
	if ctx.Err() != nil {
		return loop.Result{}, context.Cause(ctx)
	}
	next, err := a.next(before, s.Report, acted, errors.Join(missing, untold))
	return next, errors.Join(err, a.unseen)
}

// without returns what a host says that lacks the configuration that it is given.
func without(missing error, r hostapply.Report) hostapply.Report {
	if missing == nil {
		return r
	}
	_, own := errors.AsType[ownError](missing)
	if apierrors.ReasonForError(missing) != metav1.StatusReasonUnknown {
		r.Reason = missing.Error() // the API answers, and a person has to do something
	}
	if own || r.State != rollout.Done { // what failed before says nothing of what it is given now
		r.State, r.Stage, r.Reason = rollout.Working, rollout.Applies, missing.Error()
	}
	return r
}

// next returns when the next step comes.
func (a *Agent) next(before hostapply.Journal, r hostapply.Report, acted bool, err error) (loop.Result, error) {
	out := loop.Result{Changed: changed(before, *a.journal)}
	switch j := *a.journal; {
	case (acted || j != before) && (!j.Back || a.failed == ""):
		out.Again = -1
	case j.Target != "":
		out.Again = onTheWay
		err = errors.Join(err, a.failure())
		if r.Stage == rollout.Held && !a.Joined() {
			err = errors.Join(err, errors.New(r.Reason)) // no node says it yet, so the log does
		}
	case err != nil:
	case r.State == rollout.Working:
		out.Again, err = onTheWay, a.failure()
	default:
		out.Again = driftEvery
		err = a.Store.Rest(j.Good)
	}
	return out, err
}

// failure returns why the last step could not be done.
func (a *Agent) failure() error {
	if a.failed == "" {
		return nil
	}
	return errors.New(a.failed)
}

// changed says in one line what became of a way.
func changed(before, now hostapply.Journal) string {
	switch {
	case before.Target == "" && now.Target != "":
		return "on the way to " + now.Target
	case before.Target != "" && now.Target != "" && now.Back && !before.Back:
		return fmt.Sprintf("%s failed, going back to %q: %s", now.Target, now.Good, now.Why)
	case now.Failed != "" && now.Failed != before.Failed:
		return fmt.Sprintf("without %s: %s", now.Failed, now.Why)
	case now.Target == "" && now.Good != before.Good:
		return "this host has " + now.Good
	}
	return ""
}

// remember makes a journal durable before anything is done by it.
func (a *Agent) remember(j hostapply.Journal) error {
	if j == *a.journal {
		return nil
	}
	if err := a.Store.PutJournal(j); err != nil {
		return err
	}
	if j.Target == "" {
		a.looked = time.Time{} // what it has now, nobody has looked at yet
	}
	a.journal, a.did, a.failed, a.drift = &j, hostapply.Nothing, "", nil
	return nil
}

// maxReason bounds a reason in an annotation, in bytes.
const maxReason = 2000

// tell writes into the API what the host says, unless that stands there.
func (a *Agent) tell(ctx context.Context, r hostapply.Report, says map[string]string) error {
	want := maps.Clone(says)
	want[rollout.StateOf], want[rollout.StageAt] = string(r.State), string(r.Stage)
	if r.Current != "" {
		want[rollout.CurrentConfig] = r.Current
	}
	if r.Reason != "" {
		want[rollout.ReasonOf] = bounded(r.Reason)
	}
	if r.Blocked {
		want[rollout.BlockedOf] = bounded(r.Reason)
	}
	a.mu.Lock()
	a.said = r
	node, have, heard := a.self.Name, about(a.self), a.heard
	a.mu.Unlock()
	values := map[string]*string{}
	for _, name := range []string{
		rollout.CurrentConfig, rollout.StateOf, rollout.StageAt, rollout.ReasonOf, rollout.BlockedOf, drain.Desired, rollout.RebootFrom, rollout.RebootDone,
		rollout.RebootRequired, rollout.PatchFrom, rollout.PatchDone, rollout.PatchResult,
	} {
		value, wanted := want[name]
		switch had, has := have[name]; {
		case wanted && had != value:
			values[name] = &value
		case !wanted && has:
			values[name] = nil
		}
	}
	if !heard || len(values) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	if err := a.cluster.SetAnnotations(ctx, node, values); err != nil {
		return err
	}
	a.told(values)
	return nil
}

// told takes in what the API has accepted: the watch shows it a little later.
func (a *Agent) told(values map[string]*string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.self.Annotations = maps.Clone(a.self.Annotations)
	if a.self.Annotations == nil {
		a.self.Annotations = map[string]string{}
	}
	for name, value := range values {
		if value == nil {
			delete(a.self.Annotations, name)
		} else {
			a.self.Annotations[name] = *value
		}
	}
}
