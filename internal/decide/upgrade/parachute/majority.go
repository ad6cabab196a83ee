package parachute

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// One of three control planes asks more than whether another one serves: with a second one away, etcd
// loses its majority when this one stops (docs/adr/0101). After it has stopped, whoever serves shows
// that there is a majority.

// spareLimit is how long a host that was given its turn waits until somebody knows whether etcd can
// spare it.
const spareLimit = 2 * time.Minute

// kept reports whether etcd is known to keep its majority without this host. Of one and of two control
// planes other rules decide.
func (d decision) kept() bool { return d.f.Kind != OfMore || state.Is(d.f.Spare, true) }

// unspared reports whether a host that has not left gives its turn back.
func (d decision) unspared() bool {
	return d.j.Step == Prepare && !d.kept() && (d.f.Spare.Known || d.now.After(d.j.Since.Add(spareLimit)))
}

// vetoMajority keeps a host that serves from stopping etcd. A person may do so: with a host that has
// not proved itself, and with one of two that are left of three.
func (d decision) vetoMajority() string {
	wanted := d.person() && (d.j.Step != Accepted || d.f.Few)
	if wanted || d.kept() || state.Is(d.f.Serves, false) {
		return ""
	}
	return "two other control planes are not known to serve, and etcd would lose its majority"
}
