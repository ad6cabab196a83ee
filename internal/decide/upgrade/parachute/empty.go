package parachute

import "time"

// emptyLimit is how long a host that is to return waits until its pods are elsewhere.
const emptyLimit = 10 * time.Minute

// empty has the pods of a host move to other hosts before it returns, as on its way there, if
// an administrator takes it back from a release that it has accepted. A drain that does not
// end holds it for emptyLimit. Who returns by itself does not wait: its pods have been away
// since before its switch.
func (d decision) empty() (Action, bool) {
	if d.j.Step != Accepted {
		return Action{}, false
	}
	back := d.wants(GoBack)
	switch age := d.now.Sub(d.j.Empties).Abs(); {
	case d.f.Turn.Known && !back && !d.j.Empties.IsZero():
		d.j.Empties = time.Time{}
		return Action{Act: Rest, Journal: d.j, Why: "the host stays, and takes pods again"}, true
	case !back || d.f.Emptied || !d.j.Empties.IsZero() && age >= emptyLimit:
		return Action{}, false
	}
	if a, _ := d.giveUp("", false); a.Act != SwitchBack { // it would not return
		return Action{}, false
	}
	if d.j.Empties.IsZero() {
		d.j.Empties = d.now
	}
	return Action{Act: DoEmpty, Journal: d.j, Why: "its pods move to other hosts before it returns"}, true
}
