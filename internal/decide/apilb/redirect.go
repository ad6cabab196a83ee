package apilb

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The waits of the redirect.
const (
	// FirstAnswer is how long a load balancer may take for its first answer before
	// it counts as absent. Until then the redirect of an earlier run of the agent
	// stays.
	FirstAnswer = 2 * time.Second
	// Fruitless is how long the redirect outlives the last API server that took a
	// connection. Nobody else would serve these requests either, so there is no
	// hurry, and the redirect must not flap while API servers restart.
	Fruitless = 3 * time.Second
)

// Redirect describes where the API VIPs' port should lead.
type Redirect struct {
	// Table is true where the host has the table at all; a host without its own
	// load balancer has none.
	Table bool
	// VIPs are the addresses that lead to the load balancer. Where they are empty,
	// the table is there and does nothing: connections that it led earlier still
	// need it.
	VIPs []netip.Addr
}

// Memory holds what the decision about the redirect remembers.
type Memory struct {
	// Started is when Next was first called; Answered is true once a load balancer
	// has answered since.
	Started  time.Time
	Answered bool
	// On is true while the VIPs lead to the load balancer.
	On bool
	// Fruitless is the time since when no API server takes connections, zero if one
	// does.
	Fruitless time.Time
}

// Next decides where the API VIPs' port leads. An unknown result means that things
// stay as they are. The caller has to ask again at the returned time, if that is
// not zero, even where nothing has changed.
//
// A load balancer that is gone loses its traffic at once. One that finds every API
// server overloaded keeps it: it then leads to this host's own API server, and the
// virtual IP must not move because all are equally slow.
func Next(m Memory, v state.NetworkView, now time.Time) (state.Fact[Redirect], Memory, time.Time) {
	if m.Started.IsZero() {
		m.Started = now
	}
	wanted := Wanted(v)
	if !wanted.Known {
		return state.Fact[Redirect]{}, m, time.Time{}
	}
	if !wanted.Value {
		m.On = false
		return state.Known(Redirect{}), m, time.Time{}
	}
	if !v.Balancer.Known && !m.Answered && now.Sub(m.Started) < FirstAnswer {
		return state.Fact[Redirect]{}, m, m.Started.Add(FirstAnswer)
	}
	m, again := m.look(v.Balancer, now)
	if m.On {
		return state.Known(To(v.Settings.APIVIPs)), m, again
	}
	return state.Known(Redirect{Table: true}), m, again
}

// To returns a redirect of these VIPs. Equal sets give equal redirects.
func To(vips []netip.Addr) Redirect {
	out := Redirect{Table: true, VIPs: make([]netip.Addr, 0, len(vips))}
	for _, a := range vips {
		out.VIPs = append(out.VIPs, a.Unmap())
	}
	slices.SortFunc(out.VIPs, netip.Addr.Compare)
	out.VIPs = slices.Compact(out.VIPs)
	return out
}

// look takes in the state of the load balancer.
func (m Memory) look(b state.Fact[state.Balancer], now time.Time) (Memory, time.Time) {
	m.Answered = m.Answered || b.Known
	switch {
	case !b.Known:
		m.On, m.Fruitless = false, time.Time{}
	case b.Value.Live() > 0:
		m.On, m.Fruitless = true, time.Time{}
	case reached(b.Value):
		m.Fruitless = time.Time{} // all are overloaded: the redirect stays on or off
	case m.Fruitless.IsZero():
		m.Fruitless = now
	}
	if m.Fruitless.IsZero() || !m.On {
		return m, time.Time{}
	}
	until := m.Fruitless.Add(Fruitless)
	if now.Before(until) {
		return m, until
	}
	m.On = false
	return m, time.Time{}
}

func reached(b state.Balancer) bool {
	for _, yes := range b.Reached {
		if yes {
			return true
		}
	}
	return false
}
