package removal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// Gate is a reason for which a host may not go now, with the way out.
type Gate struct {
	Name     string
	Why, Way string
}

func (g Gate) String() string { return g.Name + ": " + g.Why + ". " + g.Way }

// alive is the age up to which a sign of life refutes that a host is off. It is longer than
// the longest pause of a healthy kubelet.
const alive = time.Minute

// gate is a row of the table. shut returns why the gate is closed and the way out; both are
// empty if it is open.
type gate struct {
	name string
	shut func(Facts) (why, way string)
}

// gates lists the gates. Each is asked before each step, so a host that comes back in
// the middle of its removal stops it.
var gates = []gate{
	{"list", unreadable},
	{"two", oneOfTwo},
	{"lone", lone},
	{"three", oneOfThree},
	{"upgrade", upgrading},
	{"lives", lives},
	{"silent", silent},
	{"nowhere", nowhere},
}

// Gates returns all closed gates.
func Gates(f Facts) []Gate {
	var out []Gate
	for _, g := range gates {
		if why, way := g.shut(f); why != "" {
			out = append(out, Gate{g.name, why, way})
		}
	}
	return out
}

func unreadable(f Facts) (why, way string) {
	if f.Retired.Known {
		return "", ""
	}
	return "the list of hosts that were taken out cannot be read, so nobody can tell how far the removal is",
		"See: kubectl -n kube-system get configmap holdfast-retired -o yaml"
}

// planes returns the number of control planes of the site, and whether the host is one
// of them. A name without a Node counts as a control plane if one is missing, because
// somebody may have deleted its Node, unless the configuration names them all, and not this one.
func (f Facts) planes() (number int, one bool) {
	for i := range f.Others {
		if controlPlane(&f.Others[i]) {
			number++
		}
	}
	h, listed := f.Retired.Value.Of(f.Name)
	switch {
	case slices.Contains(f.Named, f.Name):
		one = true
	case f.Node != nil:
		one = controlPlane(f.Node) || f.serves()
	case listed && h.Open():
		one = h.ControlPlane
	default:
		one = f.serves() || number < f.ControlPlanes && !f.allNamed()
	}
	if one {
		number++
	}
	return max(number, f.ControlPlanes), one
}

// allNamed reports whether the configuration names each control plane by the name that it has. That of two does, for
// their fences. That of three may name one whose place a machine of another name has got since.
func (f Facts) allNamed() bool {
	names := slices.Compact(slices.Sorted(slices.Values(f.Named)))
	return f.ControlPlanes == three-1 && len(names) == f.ControlPlanes
}

// serves reports whether an API server is among the pods of the host.
func (f Facts) serves() bool {
	return slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return p.Namespace == "kube-system" && p.Labels["component"] == "kube-apiserver"
	})
}

func oneOfTwo(f Facts) (why, way string) {
	if number, one := f.planes(); !one || number != 2 {
		return "", ""
	}
	return f.Name + " is one of two control planes that fence each other",
		"To give its place to another machine: holdfast host replace " + f.Name + ", on the host that stays. " +
			"To go on with one control plane: holdfast topology apply, there (docs/runbook/shrink.md)"
}

func lone(f Facts) (why, way string) {
	if number, one := f.planes(); !one || number != 1 {
		return "", ""
	}
	return f.Name + " is the only control plane: without it there is no cluster",
		"To give the whole site up: sudo holdfast-agent wipe --give-up-cluster, on " + f.Name
}

func oneOfThree(f Facts) (why, way string) {
	if number, one := f.planes(); !one || number < 3 {
		return "", ""
	}
	return f.Name + " is one of several control planes, whose members etcd counts",
		"To give its place to another machine: holdfast host replace " + f.Name + ", as root on a control plane that stays. " +
			"To go on with two of three: holdfast topology apply, there (docs/runbook/shrink-three.md)"
}

// upgrading lets a worker go that is lost for good: the upgrade waits for it, and would for ever.
func upgrading(f Facts) (why, way string) {
	switch worker := !f.ControlPlane(); {
	case f.Upgrade == "" || worker && f.Off && !f.Replaces:
		return "", ""
	case worker:
		return "an upgrade of the site is under way: " + f.Upgrade, "Let it end, or go back first: holdfast upgrade status. If " + f.Name + " is lost for good: holdfast host remove " + f.Name + " --is-off " + f.Name + "; another host is added when the upgrade is over"
	}
	return "an upgrade of the site is under way: " + f.Upgrade, "Let it end, or go back first: holdfast upgrade status"
}

func lives(f Facts) (why, way string) {
	if !f.Off {
		return "", ""
	}
	var signs []string
	if f.Node != nil && ready(f.Node) {
		signs = append(signs, "its Node is Ready")
	}
	if age := f.Now.Sub(f.Seen); !f.Seen.IsZero() && age < alive {
		signs = append(signs, fmt.Sprintf("its kubelet renewed its Lease %d s ago", int(max(age, 0).Seconds())))
	}
	if f.Answers {
		signs = append(signs, "its kubelet takes connections")
	}
	if len(signs) == 0 {
		return "", ""
	}
	return f.Name + " is not off: " + strings.Join(signs, ", "),
		"Leave " + f.statement() + " out, and its pods move first. Or switch it off, and wait a minute"
}

// silent stops a removal that would wait forever, because a host that does not answer ends
// no pod.
func silent(f Facts) (why, way string) {
	if !f.empties() || ready(f.Node) {
		return "", ""
	}
	return f.Name + " is not Ready, so nobody knows whether its pods have ended, and a silent host may still run",
		"Bring it back. Or see yourself that it is off, and say so: " + f.command() + " " + f.Name + " " + f.statement() + " " + f.Name
}

// nowhere stops a removal that would end pods and not move them.
func nowhere(f Facts) (why, way string) {
	if f.Off || f.Node == nil || !drain.Foresee(f.drained()).Nowhere || f.movable() == 0 {
		return "", ""
	}
	return fmt.Sprintf("no other host takes pods, so those of %s would end and not move", f.Name),
		"Add another host first: holdfast host add"
}

// movable returns the number of pods that would move to other hosts.
func (f Facts) movable() int {
	d := f.drained()
	d.Others = []corev1.Node{{}} // one host that takes every pod
	p := drain.Foresee(d)
	if p.InTheWay != "" && len(p.Moves) == 0 {
		return 1
	}
	return len(p.Moves)
}

func (f Facts) drained() drain.Facts {
	return drain.Facts{Now: f.Now, Node: f.Node, Others: f.Others, Pods: f.Pods, Budgets: f.Budgets}
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
