package ports

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Tighten is the time for which the cluster must be calm before the rules become
// as narrow as they may be. Loosen is the time for which it must not be calm
// before they become wide again: a take-over lasts a few seconds and changes no
// rule, and a source that the rules themselves may have cut off is let in after
// Loosen.
const (
	Tighten = time.Minute
	Loosen  = 10 * time.Second
)

// Memory is the state kept from one decision to the next. The zero value belongs
// to an agent that has just started: nothing is settled.
type Memory struct {
	settled bool
	// since is the time at which calm last began to differ from settled, zero if it
	// does not differ.
	since time.Time
}

// Settled reports whether the control planes are known well enough to let in
// nobody else.
func (m Memory) Settled() bool { return m.settled }

// Next returns the memory after a look at the view, and the time at which to
// decide again though nothing changes, zero for never.
func Next(m Memory, v state.NetworkView, now time.Time) (next Memory, again time.Time) {
	if calm(v) == m.settled {
		return Memory{settled: m.settled}, time.Time{}
	}
	if m.since.IsZero() {
		m.since = now
	}
	wait := Tighten
	if m.settled {
		wait = Loosen
	}
	if due := m.since.Add(wait); now.Before(due) {
		return m, due
	}
	return Memory{settled: !m.settled}, time.Time{}
}

// calm reports whether the cluster is installed, the API of this run has listed
// all its control planes, and this host's own API server works. The API server
// proves that etcd has what it needs: if rules cut etcd off, it stops working.
func calm(v state.NetworkView) bool {
	planes := 0
	for _, n := range v.Nodes.Value {
		if _, master := n.Labels[state.LabelMaster]; master || n.ControlPlane() {
			planes++
		}
	}
	_, listed := v.Self()
	return v.Stage == state.StageInstalled && !v.Stale && listed && planes >= max(v.Settings.ControlPlanes, 1) && state.Is(v.LocalAPI, true)
}
