package cluster

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A control plane may be lost for good in the middle of an upgrade. Then a plan puts another
// machine in its place, which is installed with the release that the other control plane runs, and
// the upgrade goes on with it (docs/adr/0101).

// forGood says what a person does about a host that does not come back; empty for several, and
// where this package does not know it.
func (s Site) forGood(host string) string {
	worker, known := false, false
	for _, h := range s.Hosts {
		known = known || h.Name == host
		worker = worker || h.Worker && h.Name == host
	}
	planes := s.planes()
	switch {
	case worker:
		return "; if it is lost for good: `holdfast host remove " + host + " --is-off " + host + "`"
	case known && planes == 2 && s.Record.Planes <= 2, known && planes == three && s.Record.Planes == three:
		return "; if it is lost for good: `holdfast host replace " + host + "`"
	}
	return ""
}

// plan takes back turns that nobody has begun while a plan changes the control planes, or one of three
// is missing. Gates keep further hosts from theirs. Who goes back or rises does so all the same: the plan may wait for it.
func (s Site) plan() (Step, bool) {
	r, why := s.Record, s.fewer()
	if s.Plan != "" && !r.Returning {
		why = s.Plan
	}
	if why == "" || r.NoWayBack || len(r.Turns) == 0 || len(s.atWork()) > 0 {
		return Step{}, false
	}
	r.Turns = nil
	return s.write(r, "no host begins: "+why)
}

// TurnOf returns what the cluster wants of a host. One that was installed with the new release has
// no way back there: it goes to the old release as to any other.
func (s Site) TurnOf(host string) parachute.Turn {
	t := s.Record.Turn(host)
	i := slices.IndexFunc(s.Hosts, func(h Host) bool { return h.Name == host })
	if i >= 0 && t.Wish == parachute.GoBack && s.Hosts[i].installed(s.Record) {
		t.Wish, t.From, t.To, t.Back = parachute.Go, t.To, t.From, true
	}
	return t
}

// installed reports whether a host was installed with the new release of an upgrade, and did not
// come to it by that. One that closed its way back came by an upgrade, whichever: it keeps its vetoes.
func (h Host) installed(r Record) bool {
	if h.closed(r.From, r.To) {
		return false
	}
	if h.Journal.Upgrade == r.Upgrade {
		return h.Journal.To == r.From && r.From != ""
	}
	return h.Journal.Step.AtRest() && state.Is(h.Running, r.To) && !h.open(r.From, r.To)
}

// fetchOld waits until such hosts, among those that are next, have the old release.
func (s Site) fetchOld(next []string) (Step, bool) {
	var lack []string
	for _, h := range s.Hosts {
		if slices.Contains(next, h.Name) && h.installed(s.Record) && !state.Is(h.Old, true) {
			lack = append(lack, h.Name)
		}
	}
	if lack == nil {
		return Step{}, false
	}
	return s.step(Fetch, "installed with the new release, and fetching the old one: "+lack[0], lack...)
}
