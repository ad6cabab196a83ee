// Package removal decides how a host is taken out of a cluster for good: whether it
// may go, which step comes next, and what is lost with it. The facts of the cluster
// alone say how far a removal is, so a command that is run again goes on at the
// right step.
package removal

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts has the facts about a host that is to go.
type Facts struct {
	Now  time.Time
	Name string
	// Node is the node of the host, nil if there is none; Others are all others.
	Node   *corev1.Node
	Others []corev1.Node
	// Pods are those that are bound to the name, Budgets all PodDisruptionBudgets.
	Pods    []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// Volumes are all PersistentVolumes, Attachments those of the name.
	Volumes     []corev1.PersistentVolume
	Attachments []storagev1.VolumeAttachment
	// Retired is the list of hosts that were taken out.
	Retired state.Fact[retired.List]
	// Seen is the last sign of life in the host's Lease, zero if it has none.
	Seen time.Time
	// Lease is true if the host has one, and Tokens are the bootstrap tokens of its name.
	Lease  bool
	Tokens []Token
	// Answers is true if the host's kubelet took a connection just now. False proves
	// nothing.
	Answers bool
	// ControlPlanes is the number of control planes in the site's configuration,
	// zero if that cannot be read.
	ControlPlanes int
	// Named are the control planes that the configuration names.
	Named []string
	// Upgrade says what an upgrade of the site does now, empty if none is under way.
	Upgrade string
	// Off is true if a person states that the host is off for good.
	Off bool
	// Typed is the serial number, or the UUID, by which that person names the machine of a control plane
	// of three; empty for a worker.
	Typed string
	// Replaces is true if another machine takes the place of the host, and Keeps if that machine
	// gets its name, too.
	Replaces, Keeps bool
}

// Token is a bootstrap token: the name of its Secret, and when it was made.
type Token struct {
	Name string
	Made time.Time
}

// command is the command that takes the host out, and statement the flag of it by which a person
// states that the host is off.
func (f Facts) command() string {
	if f.Replaces {
		return "holdfast host replace"
	}
	return "holdfast host remove"
}

func (f Facts) statement() string {
	if f.Replaces {
		return "--is-gone"
	}
	return "--is-off"
}

// Action names what comes next.
type Action string

// The actions, in their order.
const (
	// Drain writes the wish that the host is empty. Wait does nothing: others have to act.
	Drain Action = "drain"
	Wait  Action = "wait"
	// Mark writes the entry in the list. From then on nothing makes the host's Node
	// again.
	Mark Action = "mark"
	// Detach tells Kubernetes that the host is off, so that its volumes and pods may
	// move.
	Detach Action = "detach"
	// Delete deletes the Node, Sweep the objects that are left under its name.
	Delete Action = "delete"
	Sweep  Action = "sweep"
	Done   Action = "done"
	// Unknown means that nothing has that name, and that no person wants it shut out.
	Unknown Action = "unknown"
)

// Step is what comes next, with a sentence for people.
type Step struct {
	Action Action
	Says   string
	// Member is the member of etcd that a Leave removes.
	Member state.MemberID
	// Left has the objects that a Sweep deletes. Bound names, once that is Done, the pods that are
	// bound to the name all the same (Bound).
	Left  Left
	Bound []string
	// InTheWay is true if a Wait is for a pod that a person has to move.
	InTheWay bool
}

// Left has the objects that are left under the name of a host without a Node. No removal waits for the
// pods that Bound names.
type Left struct {
	Pods        []corev1.Pod
	Bound       []string
	Attachments []storagev1.VolumeAttachment
	Lease       bool
	Tokens      []string
}

func (l Left) none() bool {
	return len(l.Pods) == 0 && len(l.Attachments) == 0 && !l.Lease && len(l.Tokens) == 0
}

// DetachLimit is the time that a host which is off may keep its volumes. After that its Node is
// deleted anyway, and Kubernetes takes the volumes away by force.
const DetachLimit = 8 * time.Minute

// Next returns the next step. The caller asks the gates before each step.
func Next(f Facts) Step {
	entry, marked := f.entry()
	switch {
	case f.unheard() && !f.shutsOut():
		return Step{Action: Unknown, Says: "there is no host of that name"}
	case f.empties():
		return f.emptied()
	case !marked:
		return Step{Action: Mark, Says: "writes that " + f.Name + " was taken out, so that nothing makes its Node again"}
	case f.Node != nil && f.Off && f.holds() && !tainted(f.Node):
		return Step{Action: Detach, Says: "tells Kubernetes that " + f.Name + " is off, so that its pods and volumes move"}
	case f.Node != nil && f.Off && len(f.Attachments) > 0 && f.Now.Sub(entry.When) < DetachLimit:
		return Step{Action: Wait, Says: "waits until the volumes of " + f.Name + " are taken away"}
	case f.Node != nil:
		return Step{Action: Delete, Says: "deletes Node " + f.Name}
	}
	left := f.left()
	if !left.none() {
		return Step{Action: Sweep, Says: "deletes what is left under the name " + f.Name, Left: left}
	}
	return Step{Action: Done, Says: f.Name + " is out of the cluster", Bound: left.Bound}
}

// unheard reports whether the cluster knows nothing of the name but perhaps that it was given again.
func (f Facts) unheard() bool {
	_, marked := f.entry()
	return f.Node == nil && !marked && f.left().none()
}

// shutsOut reports whether a person may shut out a name of which nothing is known. After a restore
// nobody else knows who was taken out after the backup, and the certificate of such a host opens the
// site: its kubelet makes its Node. A name that was given again lately may be that of a host on its way.
func (f Facts) shutsOut() bool {
	_, until := f.OnItsWay()
	return f.Off && !f.Replaces && until.IsZero()
}

// OnItsWay returns when the name was given again, and until when its host may be on its way; both zero if it was not
// given again, or long ago.
func (f Facts) OnItsWay() (given, until time.Time) {
	h, listed := f.Retired.Value.Of(f.Name)
	if !listed || h.Open() || f.Now.Sub(h.Again) >= young {
		return time.Time{}, time.Time{}
	}
	return h.Again, h.Again.Add(young)
}

// empties reports whether the host is emptied before anything else. That is so, too, if its entry was
// written before, by a person who said that it is off: it came back.
func (f Facts) empties() bool {
	return f.Node != nil && !f.Off && !drain.HasWanted(f.Node.Annotations)
}

// emptied returns the step for a host that still has its pods.
func (f Facts) emptied() Step {
	a := f.Node.Annotations
	switch waits := a[drain.Waits]; {
	case a[drain.Wanted] == "":
		return Step{Action: Drain, Says: "moves the pods of " + f.Name + " to other hosts"}
	case waits != "":
		return Step{Action: Wait, Says: "waits for: " + waits, InTheWay: true}
	default:
		return Step{Action: Wait, Says: "waits until the pods of " + f.Name + " have moved"}
	}
}

// entry returns the host's entry in the list, and whether it is about this Node. The entry of
// an earlier host of that name does not count.
func (f Facts) entry() (retired.Host, bool) {
	h, listed := f.Retired.Value.Of(f.Name)
	if !listed || f.Node != nil && h.UID != string(f.Node.UID) {
		return retired.Host{}, false
	}
	return h, h.Open()
}

// Entry returns the entry to write for the host.
func Entry(f Facts, by string) retired.Host {
	h := retired.Host{Name: f.Name, When: f.Now.UTC(), By: by, Why: f.command(), Off: f.Off}
	if n := f.Node; n != nil {
		h.UID, h.Machine, h.System = string(n.UID), n.Status.NodeInfo.MachineID, n.Status.NodeInfo.SystemUUID
		h.ControlPlane, h.Addresses = controlPlane(n), Addresses(n)
	}
	return h
}

// Addresses returns the internal addresses of a node's host; none for no node.
func Addresses(n *corev1.Node) []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

// controlPlane reports whether a node is a control plane, or is becoming one.
func controlPlane(n *corev1.Node) bool {
	_, is := n.Labels[noderole.ControlPlane]
	return is || n.Labels[noderole.Claim] == string(state.RoleMaster)
}

// holds reports whether the host still has pods or volumes that others could have.
func (f Facts) holds() bool { return len(f.Pods)+len(f.Attachments) > 0 }

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == outofservice.Key })
}

// left returns what is left under the name of a host that has no Node any more.
func (f Facts) left() Left {
	if f.Node != nil {
		return Left{}
	}
	out := Left{Attachments: f.Attachments, Lease: f.Lease}
	out.Pods, out.Bound = Bound(f.Pods, Since(f.Retired.Value, f.Name, f.Now))
	for _, t := range f.Tokens {
		if !f.ofSuccessor(t) {
			out.Tokens = append(out.Tokens, t.Name)
		}
	}
	return out
}
