package apilb

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Health is the result of the load balancer's checks of a server.
type Health string

// The kinds of health.
const (
	// HealthUnchecked: the server was not checked yet, which lasts a second.
	HealthUnchecked Health = "unchecked"
	// HealthUnasked: the load balancer gives it no new connections because it
	// cannot open one itself. That says nothing about the server.
	HealthUnasked Health = "unasked"
	// HealthReady: it takes requests.
	HealthReady Health = "ready"
	// HealthUnready: it answers that it is not ready, or answers too late; it gets
	// no new connections.
	HealthUnready Health = "unready"
	// HealthHung: it takes connections and answers nothing; it may only be short of
	// processors.
	HealthHung Health = "hung"
	// HealthBroken: it takes connections and resets them, or is not one of the
	// cluster's API servers.
	HealthBroken Health = "broken"
	// HealthDead: it takes no connection.
	HealthDead Health = "dead"
)

// Admin is the administrative state that the load balancer was given for a server.
type Admin string

// The administrative states.
const (
	AdminReady Admin = "ready"
	// AdminDrain: no new connections; the present ones go on.
	AdminDrain Admin = "drain"
	// AdminMaintenance: out of use, its connections cut.
	AdminMaintenance Admin = "maintenance"
)

// Server is a server as the running load balancer shows it.
type Server struct {
	Name   string
	Health Health
	Admin  Admin
	// Sessions is the number of connections that go through it now.
	Sessions int
	// Since is how long it has been in this state.
	Since time.Duration
}

// Verb is a kind of change.
type Verb string

// The kinds of change.
const (
	// Add adds a server that is missing.
	Add Verb = "add"
	// Resume brings a server back that was about to be removed.
	Resume Verb = "resume"
	// Drain lets a server's connections end by themselves.
	Drain Verb = "drain"
	// Cut ends a server's connections because they lead nowhere.
	Cut Verb = "cut the connections of"
	// Remove cuts the remaining connections and removes the server.
	Remove Verb = "remove"
)

// Change is one change of the running load balancer.
type Change struct {
	Verb   Verb
	Server string
	// Backend is the backend to add.
	Backend Backend
}

// DrainTime is how long a server that was taken out may keep its connections:
// longer than an API server needs to end its own ones in order.
const DrainTime = 75 * time.Second

// Changes returns the changes that lead from the servers of the running load
// balancer to the wanted ones. It adds new servers before it drains old ones. It
// removes an old server only when that was drained and has no connections left, or
// when its time is over: a change of membership cuts no connection that works.
// After a change the servers have to be read again.
func Changes(running []Server, want []Backend) []Change {
	var out []Change
	for _, b := range want {
		i := slices.IndexFunc(running, func(s Server) bool { return s.Name == b.Server() })
		switch {
		case i < 0:
			out = append(out, Change{Verb: Add, Server: b.Server(), Backend: b})
		case running[i].Admin != AdminReady:
			out = append(out, Change{Verb: Resume, Server: b.Server()})
		case running[i].stranded():
			out = append(out, Change{Verb: Cut, Server: b.Server()})
		}
	}
	for _, s := range running {
		if slices.ContainsFunc(want, func(b Backend) bool { return b.Server() == s.Name }) {
			continue
		}
		if verb := farewell(s); verb != "" {
			out = append(out, Change{Verb: verb, Server: s.Name})
		}
	}
	return out
}

// HangTime is how long a server that hangs keeps its connections once it gets no
// new ones. Most servers that hang are starved and go on. If all their watches
// moved at once, they would be the next load on an overloaded host.
const HangTime = 5 * time.Second

// stranded reports whether a server has connections that lead nowhere. A client at
// the other end does not learn that from a host that is off.
func (s Server) stranded() bool {
	switch s.Health {
	case HealthDead, HealthBroken:
		return s.Sessions > 0
	case HealthHung:
		return s.Sessions > 0 && s.Since >= HangTime
	case HealthUnchecked, HealthUnasked, HealthReady, HealthUnready:
	}
	return false
}

// farewell returns what to do next with an old server, empty for nothing yet.
func farewell(s Server) Verb {
	switch {
	case s.Health == HealthDead, s.Admin == AdminMaintenance:
		return Remove
	case s.Admin == AdminReady:
		return Drain
	case s.Sessions == 0, s.Since >= DrainTime, s.stranded():
		return Remove
	default:
		return ""
	}
}

// View returns what the servers mean for the rest of the host. A server that was
// not checked yet keeps its former state: a load balancer that has just been
// started or reloaded has lost nothing. A server that cannot be asked from here
// counts as one that must not get clients.
func View(servers []Server, before state.Fact[state.Balancer]) state.Balancer {
	out := state.Balancer{Backends: map[string]bool{}, Reached: map[string]bool{}}
	for _, s := range servers {
		node := NodeOf(s.Name)
		ready, reached := s.Health == HealthReady, s.Health != HealthDead && s.Health != HealthUnasked
		if s.Health == HealthUnchecked {
			ready, reached = before.Value.Backends[node], before.Value.Reached[node]
		}
		out.Backends[node] = out.Backends[node] || ready && s.Admin == AdminReady
		out.Reached[node] = out.Reached[node] || reached
		if s.stranded() {
			out.Stranded = append(out.Stranded, s.Name)
		}
	}
	return out
}
