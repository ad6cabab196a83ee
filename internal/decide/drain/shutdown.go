package drain

import (
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// shuts begins the wish of a host that shuts down.
const shuts = drains + "shutdown-"

// Leave returns the wish of a host that shuts down. boot is the one that ends, and begins with the
// kernel's id of it: in the next one the wish is of the past, and the host takes pods again.
func Leave(boot string) string { return shuts + boot }

// GoesDown reports whether systemd carries a shutdown out, by its SystemState: a reboot,
// a power-off, a halt, a kexec. It does not while a unit is stopped or restarted, nor
// while another target is isolated.
func GoesDown(systemState string) bool { return systemState == "stopping" }

// Leaving is what a host that shuts down knows.
type Leaving struct {
	// Nodes are those of the cluster, and Name is the host's own.
	Nodes []state.Node
	Name  string
	// Configured is true if the host follows a machine configuration: its agent then
	// has it take pods again after the boot.
	Configured bool
}

// Next returns whether the host is to ask now that others take its pods. Once over is
// not empty there is nothing to wait for, and it says why.
func (l Leaving) Next() (ask bool, over string) {
	self, others, peer := l.self(), false, l.peer()
	for _, n := range l.Nodes {
		_, cordoned := n.Annotations[CordonedBy]
		others = others || n.Name != l.Name && n.Ready && !n.Absent && !cordoned && !leaves(n)
	}
	if self == nil || self.Absent {
		return false, "the cluster has no node of this name"
	}
	own := self.Annotations[Desired]
	switch {
	case Empties(own) && self.Annotations[Applied] == own, HasWanted(self.Annotations):
		over = "other hosts have its pods"
	case peer != "":
		// Two of them that stop in the same moment both keep their data, so neither waits. It
		// asks all the same: that tells the other one.
		ask, over = true, peer+" shuts down too"
	case !others:
		over = "no other host takes pods now"
	case !l.Configured:
		over = "nothing would have it take pods again after the boot"
	default:
		ask = true
	}
	return ask && l.Configured && !Empties(own), over
}

// Together reports whether another control plane shuts down with this one. Neither then
// waits for anything: both keep their data, and the one that waited would be left by the
// other one.
func (l Leaving) Together() bool { return l.peer() != "" }

// self returns the host's own node, nil if there is none.
func (l Leaving) self() *state.Node {
	for i, n := range l.Nodes {
		if n.Name == l.Name {
			return &l.Nodes[i]
		}
	}
	return nil
}

// peer names another control plane that shuts down, if the host is one. One that is off keeps
// the wish of its shutdown until its next boot: it shuts down no more.
func (l Leaving) peer() string {
	if self := l.self(); self == nil || !self.ControlPlane() {
		return ""
	}
	for _, n := range l.Nodes {
		if n.Name != l.Name && n.ControlPlane() && n.Ready && !n.Absent && leaves(n) {
			return n.Name
		}
	}
	return ""
}

// leaves reports whether a host shuts down, as far as its Node says. The wish of a boot before this
// one is of the past, though the host's agent has not taken it back yet.
func leaves(n state.Node) bool { return strings.HasPrefix(n.Annotations[Desired], Leave(n.BootID)) }

// Departing is what a host knows that shuts down and has waited for its pods.
type Departing struct {
	// Down is whether systemd carries a shutdown out, by GoesDown.
	Down state.Fact[bool]
	// ControlPlane is true if the host is one, and Nodes are those of the cluster.
	ControlPlane bool
	Nodes        state.Fact[[]state.Node]
}

// Stays says why a host keeps its virtual IPs and its API server until systemd stops
// them; empty if it may give them up before. Whether the cluster carries on without the
// host is asked besides, as before a boot of its own.
func (d Departing) Stays() string {
	serve := 0
	for _, n := range d.Nodes.Value {
		if n.ControlPlane() {
			serve++
		}
	}
	switch {
	case !d.Down.Known:
		return "systemd does not say whether the host shuts down"
	case !d.Down.Value:
		return "the host does not shut down"
	case d.ControlPlane && !d.Nodes.Known:
		return "nobody says which other hosts serve the API"
	case d.ControlPlane && serve < 2:
		return "no other host serves the API"
	}
	return ""
}
