package drain

import (
	"github.com/holdfast/holdfast/internal/model/state"
)

// Leave returns the wish of a host that shuts down. boot is the one that ends: in the
// next one the wish is of the past, and the host takes pods again.
func Leave(boot string) string { return Before("shutdown-" + boot) }

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
	others := false
	for i, n := range l.Nodes {
		if n.Name == l.Name {
			self = &l.Nodes[i]
			continue
		}
		_, leaves := n.Annotations[CordonedBy]
		others = others || n.Ready && !n.Absent && !leaves
	}
	if self == nil || self.Absent {
		return false, "the cluster has no node of this name"
	}
	own := self.Annotations[Desired]
	switch {
	case Empties(own) && self.Annotations[Applied] == own, HasWanted(self.Annotations):
		return false, "other hosts have its pods"
	case !others:
		return false, "no other host takes pods now"
	case Empties(own):
		return false, ""
	case !l.Configured:
		return false, "nothing would have it take pods again after the boot"
	}
	return true, ""
}
