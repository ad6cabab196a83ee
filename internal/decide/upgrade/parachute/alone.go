package parachute

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Unheard reports whether the only control plane of a site would go back if an administrator
// wanted it, and stays without one. The agent of the new release, which reads what the cluster
// wants, perhaps never runs: then the parachute reads it.
func Unheard(j Journal, f Facts, now time.Time) bool {
	d := decision{j, f, now}
	if a := Next(j, f, now); d.kind() != Alone || f.Turn.Known || a.Act != Hold && a.Held == "" {
		return false
	}
	f.Turn = state.Known(Turn{Wish: GoBack})
	return Next(j, f, now).Act == SwitchBack
}

// barLimit is for how long after its deadline nobody may have decided about a host, because a
// program that hangs has the lock of the journal.
const barLimit = 3 * time.Minute

// Barred reports whether a host that cannot take the lock of its journal ends the agent for that: it
// should have gone back long ago. up is for how long this boot lasts: whoever has just booted has to
// be let count that first.
func Barred(j Journal, up time.Duration, now time.Time) bool {
	if !j.Step.Trying() && j.Step != Returning || up < whole+barLimit {
		return false
	}
	return now.Before(j.Switched) || now.After(j.Deadline.Add(barLimit))
}

// wasAtRest ends the way of a host of which nothing but its releases is known, and that nothing
// leads back: it was at an end of one.
func (d decision) wasAtRest(why string) (Action, bool) {
	d.j.Switched, d.j.Deadline = time.Time{}, time.Time{}
	end := Accepted
	if turn := d.f.Turn; turn.Known && turn.Value.From == d.f.Running {
		d.j.From, d.j.To, end = turn.Value.From, turn.Value.To, Returned
	}
	return d.to(end, Hold, why+"; the host was on no way, and stays on its release")
}
