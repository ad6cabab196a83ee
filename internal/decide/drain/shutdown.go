package drain

import (
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// shuts begins the wish of a host that shuts down.
const shuts = drains + "shutdown-"

// Leave returns the wish of a host that shuts down. boot is the one that ends: in the
// next one the wish is of the past, and the host takes pods again.
func Leave(boot string) string { return shuts + boot }

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
	var self *state.Node
	others, peer := false, ""
	for i, n := range l.Nodes {
		if n.Name == l.Name {
			self = &l.Nodes[i]
			continue
		}
		_, cordoned := n.Annotations[CordonedBy]
		leaves := strings.HasPrefix(n.Annotations[Desired], shuts)
		if leaves && n.ControlPlane() {
			peer = n.Name
		}
		others = others || n.Ready && !n.Absent && !cordoned && !leaves
	}
	if self == nil || self.Absent {
		return false, "the cluster has no node of this name"
	}
	own := self.Annotations[Desired]
	switch {
	case Empties(own) && self.Annotations[Applied] == own, HasWanted(self.Annotations):
		over = "other hosts have its pods"
	case peer != "" && self.ControlPlane():
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
