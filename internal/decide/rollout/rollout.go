// Package rollout decides which host gets its new configuration next.
//
// Nothing else takes a control plane away for a configuration: one host at a
// time, and none while the others could not carry the cluster without it. An
// unknown fact is a reason to wait. Whoever waits is told for what.
package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a node, by their upstream names.
const (
	// CurrentConfig is the rendered MachineConfig that the host has. Its agent
	// writes it.
	CurrentConfig = "machineconfiguration.openshift.io/currentConfig"
	// DesiredConfig is the one that it is to have. The operator writes it.
	DesiredConfig = "machineconfiguration.openshift.io/desiredConfig"
	// StateOf is the State of the host, and ReasonOf says why. Its agent writes
	// both. The operator removes both when it sets DesiredConfig.
	StateOf  = "machineconfiguration.openshift.io/state"
	ReasonOf = "machineconfiguration.openshift.io/reason"
)

// State is what a host says of its work.
type State string

// The states.
const (
	Done    State = "Done"
	Working State = "Working"
	// Degraded: the host could not apply the configuration, or somebody changed
	// what it had applied.
	Degraded State = "Degraded"
	// Unreconcilable: the host refused it.
	Unreconcilable State = "Unreconcilable"
)

// Host is a node, as far as the decision reads it.
type Host struct {
	Name    string
	Labels  map[string]string
	Created time.Time
	// Current and Desired are empty while nobody has set them.
	Current, Desired string
	// Given is when Desired was set, if that is known.
	Given  time.Time
	State  State
	Reason string
	// Stage is empty if its agent does not tell it.
	Stage         Stage
	Ready         bool
	Unschedulable bool
	// Trouble names a condition of the node that keeps pods away; empty if none
	// does.
	Trouble string
	// Pressed is true if Trouble is a want of memory or of process ids. Its configuration may be why, or its own pods.
	Pressed bool
	// Draining is since when its pods move to other hosts, zero if they do not, and
	// InTheWay says who is in the way.
	Draining time.Time
	InTheWay string
	// ByHand is true if its node says that a person boots it.
	ByHand bool
	// Wish is what somebody wants of it, and Waiting what of that does not come yet. Behind is
	// a reboot that somebody wants while Wish is for updates without a turn; empty for none.
	Wish, Behind Wish
	Waiting      Waiting
	// Required is why its distribution wants a reboot, and UpdatesFailed why the last
	// updates that somebody wanted were not installed; empty otherwise. NotRequired is
	// true if it is known to want none.
	Required, UpdatesFailed string
	NotRequired             bool
	// RequiredWished is the Required for which its pool has wished a reboot already;
	// empty if it has not since the distribution last wanted none.
	RequiredWished string
}

// Pool is a MachineConfigPool.
type Pool struct {
	Name         string
	NodeSelector *metav1.LabelSelector
	Paused       bool
	// ByHand is true if a person boots its hosts.
	ByHand bool
	// Closed says when its maintenance window opens; empty while that is open, or if it
	// has none.
	Closed string
	// BootsRequired is true if a reboot that the distribution of a host wants is a wish.
	BootsRequired  bool
	MaxUnavailable *intstr.IntOrString
	// Settling is true while Target is so new that another one may follow at once:
	// a site applies several objects one after the other.
	Settling bool
	// Target is the rendered MachineConfig that its hosts are to have. It is empty
	// if the merge was refused, and Problem then says why.
	Target  string
	Problem string
}

// Spare says whether the cluster carries on without one control plane.
type Spare struct {
	Carries state.Fact[bool]
	// Why is the reason if it does not, or if that is unknown.
	Why string
}

// AnswerLimit is the time in which the agent of a host answers that it was given a
// configuration. It is twice that of a slow boot.
const AnswerLimit = 10 * time.Minute

// Site holds the facts of a decision.
type Site struct {
	Now   time.Time
	Hosts []Host
	Pools []Pool
	// ControlPlanes is the number with which the site was installed. A node that
	// somebody deleted is still one of them.
	ControlPlanes int
	// Kubelet has the settings of kubelet in a configuration that may make a host short of memory or of process ids, by
	// its name. What is not there is unknown.
	Kubelet map[string]string
	// Spares has what is known of each control plane, by its node.
	Spares map[string]Spare
	// Operator is the host on which the operator runs, if that is known.
	Operator string
	// Upgrade is why an upgrade of the site lets no host be away now; empty if it does.
	Upgrade string
	// Plan is what changes the control planes now, so that none of them may be away; empty for nothing.
	Plan string
}

// Assignment gives a host its configuration.
type Assignment struct{ Host, Config string }

// Decision is what the operator writes next.
type Decision struct {
	Set []Assignment
	// Reboots is about the hosts that somebody wants to boot.
	Wishes []WishStep
	// Pools has the status of each pool, in the order in which they have their
	// turn.
	Pools []Status
	// Astray lists hosts that no pool configures, and why.
	Astray []Astray
}

// Astray is a host that no pool configures, or not every pool that selects it.
type Astray struct{ Host, Why string }

// Decide decides who gets a configuration now. Pools have their turn one after
// the other: a worker shows a configuration before a control plane has it.
func Decide(s Site) Decision {
	members, astray := Members(s)
	outside := withoutTurn(s, members, astray)
	out := Decision{Astray: astray, Wishes: wishesOutside(outside)}
	var turns []turn
	for _, p := range inOrder(s.Pools) {
		turns = append(turns, newTurn(s, p, members[p.Name], outside))
	}
	for i, t := range turns {
		set, wait := t.next(turns[:i], turns[i+1:])
		out.Set = append(out.Set, set...)
		out.Pools = append(out.Pools, t.status(wait))
		// The pools that follow see these hosts at work.
		turns[i].began(set)
		out.Wishes = append(out.Wishes, t.reboots(slices.Concat(turns[:i], turns[i+1:]))...)
	}
	return out
}

// turn is a pool with its hosts, at one moment.
type turn struct {
	site  Site
	pool  Pool
	hosts []Host
	// outside are the hosts that no pool has. One of them may be at work: somebody can
	// change its labels in the middle of it.
	outside []outsider
}

func newTurn(s Site, p Pool, hosts []Host, outside []outsider) turn {
	return turn{site: s, pool: p, hosts: slices.Clone(hosts), outside: outside}
}

func (t *turn) began(set []Assignment) {
	for _, a := range set {
		i := slices.IndexFunc(t.hosts, func(h Host) bool { return h.Name == a.Host })
		h := &t.hosts[i]
		h.Desired, h.Given, h.State, h.Reason, h.Stage = a.Config, t.site.Now, "", "", Untold
	}
}

func (t turn) controlPlanes() bool { return t.pool.Name == Master }

// working reports whether a host is on its way to the configuration that it was
// given, or to a reboot.
func (h Host) working() bool {
	return h.rebooting() || h.Desired != "" && !h.failing() && (h.Current != h.Desired || h.State != Done)
}

// silent reports whether the agent of a host that is there has not answered for
// too long.
func (h Host) silent(now time.Time) bool {
	asked := h.asked()
	return h.working() && h.State != Working && h.relieved().away() == "" && !asked.IsZero() && now.Sub(asked) > AnswerLimit
}

// asked returns when a host at work was last asked for something.
func (h Host) asked() time.Time {
	if h.rebooting() {
		return h.Wish.Given
	}
	return h.Given
}

// task says what a host at work was asked for last.
func (h Host) task() string {
	if h.rebooting() {
		return "given its turn " + h.Wish.task()
	}
	return "given " + h.Desired
}

// late reports whether the pods of a host move for too long.
func (h Host) late(now time.Time) bool {
	return !h.Draining.IsZero() && now.Sub(h.Draining) > drain.Limit
}

// failing reports whether a host could not get the configuration that it was
// given, or no longer has it as it was.
func (h Host) failing() bool {
	return h.Desired != "" && (h.State == Degraded || h.State == Unreconcilable)
}

// done reports whether a host has a configuration.
func (h Host) done(config string) bool {
	return config != "" && h.Current == config && h.Desired == config && h.State == Done
}

// away returns why a host takes no pods; empty if it does.
func (h Host) away() string {
	switch {
	case !h.Ready:
		return "it is not ready"
	case h.Unschedulable:
		return "it is cordoned"
	default:
		return h.Trouble
	}
}

// unavailable reports whether a host counts against maxUnavailable. One that
// fails does not by that alone, or it could never be given another
// configuration (docs/facts/machine-config.md#order, O4 and O5).
func (h Host) unavailable() bool { return h.away() != "" || h.working() }

// pressed reports whether a host takes no pods for a pressure alone, and is not at work.
func (h Host) pressed() bool { return h.Pressed && !h.relieved().unavailable() }

// relieved returns the host as without its pressure.
func (h Host) relieved() Host {
	if h.Pressed {
		h.Trouble, h.Pressed = "", false
	}
	return h
}
