package carry

import (
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// hearsay is the time for which a Node that names a plan is believed: the cluster gets the plan right
// after.
const hearsay = 10 * time.Second

// News is what a host hears of a plan that the other one carries. Annotation is set on the Node of the
// host that carries it, and has the plan's ID. Every agent hears of Nodes, so nobody asks the API all the
// time.
type News struct {
	Annotation string

	mu sync.Mutex
	// heard is the plan that a Node names, at the time at which that was heard first.
	heard   string
	heardAt time.Time
	// rested is the plan of which nothing is left to do.
	rested string
}

// Nodes hears the API's list of nodes. It reports whether a Node names a plan that none named before.
func (n *News) Nodes(list []state.Node, now time.Time) (fresh bool) {
	plan := ""
	for _, node := range list {
		if id := node.Annotations[n.Annotation]; id != "" {
			plan = id
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if fresh = plan != "" && n.heard == ""; fresh {
		// A plan that this host took for ended is news, too.
		n.heardAt, n.rested = now, ""
	}
	n.heard = plan
	return fresh
}

// Own is this host's copy of a plan. ID is empty if there is none.
type Own struct {
	ID   string
	Over bool
}

// Quiet reports whether nothing is to be decided about a plan, apart from a wish.
func (n *News) Quiet(own Own) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	over := own.ID == "" || own.Over && n.rested == own.ID
	return over && (n.heard == "" || n.heard == n.rested)
}

// Rest remembers that nothing of the plan is left to do. lock is the plan of the cluster's copy. A Node may
// name a plan that the cluster does not have, since the name comes first and goes last.
func (n *News) Rest(own Own, lock state.Fact[string], now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case own.ID != "" && own.Over && lock.Known:
		n.rested = own.ID
		if lock.Value != own.ID && n.heard == own.ID {
			n.heard = "" // somebody may have deleted the lock, and the other host writes it again
		}
	case lock.Known && lock.Value != n.heard && now.Sub(n.heardAt).Abs() > hearsay:
		n.heard = "" // until a Node says it again
	}
}
