package sim

import "github.com/holdfast/holdfast/internal/state"

// Bug takes a rule of the protocol out, or puts a mistake in that somebody
// made before. The decision itself has no switch: a bug changes what it is
// told, or what it said.
type Bug struct {
	Name string
	What string
	// Origin names the rule of the protocol, or the historic bug.
	Origin string

	snapshot      func(*world, int, *state.EtcdSnapshot)
	verdict       func(*world, int, *state.EtcdSnapshot, *state.EtcdVerdict)
	anyOrder      bool
	gossip        bool
	trustsRequest bool
	liar          bool
}

// FindBug returns the bug of a name.
func FindBug(name string) (*Bug, bool) {
	for i := range Bugs {
		if Bugs[i].Name == name {
			return &Bugs[i], true
		}
	}
	return nil, false
}

// BugNames lists the names.
func BugNames() string {
	out := ""
	for _, b := range Bugs {
		out += b.Name + " "
	}
	return out
}

// Bugs are all of them, those of the protocol's rules first.
var Bugs = []Bug{}
