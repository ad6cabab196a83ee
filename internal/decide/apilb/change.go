package apilb

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Health is what the load balancer found out about a server.
type Health string

// The kinds of health.
const (
	// HealthUnchecked: the server was never looked at, which lasts a second.
	HealthUnchecked Health = "unchecked"
	// HealthUnasked: the load balancer gives it no new connections, since it
	// cannot open one itself. That says nothing of the server.
	HealthUnasked Health = "unasked"
	// HealthReady: it takes requests.
	HealthReady Health = "ready"
	// HealthUnready: it answers, and says that it is not ready or says so too
	// late; it is given no new connections.
	HealthUnready Health = "unready"
	// HealthHung: it takes connections and says nothing; it may only be short of
	// processors.
	HealthHung Health = "hung"
	// HealthBroken: it takes connections and resets them, or is none of the
	// cluster's API servers.
	HealthBroken Health = "broken"
	// HealthDead: it takes no connection.
	HealthDead Health = "dead"
)

// Admin is what the load balancer was told to do with a server.
type Admin string

// What can be told.
const (
	AdminReady Admin = "ready"
	// AdminDrain: no new connections, those there are go on.
	AdminDrain Admin = "drain"
	// AdminMaintenance: out of use, its connections cut.
	AdminMaintenance Admin = "maintenance"
)

// Server is a server as the running load balancer shows it.
type Server struct {
	Name   string
	Health Health
	Admin  Admin
	// Sessions are the connections that go through it now.
	Sessions int
	// Since is how long it has been in this state.
	Since time.Duration
}

// Verb is a kind of change.
type Verb string

// The kinds of change.
const (
	// Add makes a server that is not there.
	Add Verb = "add"
	// Resume gives a server that was on its way out its part again.
	Resume Verb = "resume"
	// Drain lets a server's connections end by themselves.
	Drain Verb = "drain"
	// Cut ends a server's connections, which lead nowhere.
	Cut Verb = "cut the connections of"
	// Remove cuts what is left of them and takes the server away.
	Remove Verb = "remove"
)

// Change is one thing to do to the running load balancer.
type Change struct {
	Verb   Verb
	Server string
	// Backend is what to add.
	Backend Backend
}

// DrainTime is how long a server that was taken out may keep its connections:
// longer than an API server needs to see its own ones off.
const DrainTime = 75 * time.Second

// Changes leads from the servers of the running load balancer to those that
// should be there. What comes is added before what goes is drained. A server
// that goes is removed only when it was drained and nothing goes through it any
// more, or when it had its time: a change of membership cuts no connection that
// works. After a change the servers have to be looked at again.
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

// HangTime is how long a server that hangs keeps its connections once it is
// given no new ones. Most that hang are starved and go on; all their watches at
// once would be the next load on a host that has too much.
const HangTime = 5 * time.Second

// stranded reports whether a server has connections that lead nowhere. Whoever
// is at their other end does not learn it from a host that is off.
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

// farewell is what to do next with a server that is to go, empty for nothing yet.
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

// View is what servers mean for the rest of the host. A server that was not
// looked at yet is what it was before: a load balancer that has just been
// started or reloaded has not lost anything. One that cannot be asked from here is
// none to lead anybody to.
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
