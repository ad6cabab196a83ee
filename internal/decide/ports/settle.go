package ports

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// How long it has to be well before the rules are as narrow as they may be, and
// how long it has to be otherwise before they are wide again. A take-over lasts
// a few seconds: it changes no rule. What the rules themselves may have cut is
// let in after Loosen.
const (
	Tighten = time.Minute
	Loosen  = 10 * time.Second
)

// Memory is what is remembered from one decision to the next. Its zero value is
// that of an agent that has just begun: nothing is settled.
type Memory struct {
	settled bool
	// since is when it began to be otherwise, zero where it is not.
	since time.Time
}

// Settled reports whether who the control planes are is known well enough to let
// in nobody else.
func (m Memory) Settled() bool { return m.settled }

// Next returns what is remembered after a look, and when it is to be decided
// again though nothing changes, zero for never.
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

// calm reports whether the cluster stands, all its control planes are known from
// the API in this run, and this host's own API server works. The last is the
// proof that etcd has what it needs: rules that cut etcd off end with it.
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
