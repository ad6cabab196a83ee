package parachute

import "time"

// Without its peer one of two hosts can show nothing: etcd has no quorum, whatever the release is
// like. The journal has from when to when that was so, for whoever decides next.

// mostApart bounds how long after its switch a host may still get the time that it lost. A peer that
// comes and goes for longer has the host return, and nobody is blamed.
const mostApart = 2 * whole

// apart notes that Corosync has no other host, and that it has one again: from then on the release has
// the time of all criteria.
func (d decision) apart() (Action, bool) {
	tries := d.j.Step == Switched || d.j.Step == Started || d.j.Step == Proving
	if d.kind() != OfTwo || !tries || !d.f.Apart.Known || d.f.Apart.Value == d.isApart() {
		return Action{}, false
	}
	if d.f.Apart.Value {
		d.j.Apart, d.j.Joined = d.now, time.Time{}
		return d.to(d.j.Step, Prove, "Corosync has no other host: that time does not count")
	}
	d.j.Joined = d.now
	least, most := d.now.Add(judged), d.j.Switched.Add(mostApart)
	if most.Before(least) {
		least = most
	}
	if d.j.Deadline.Before(least) {
		d.j.Deadline = least
	}
	return d.to(d.j.Step, Prove, "Corosync has another host again: the release has its time from now on")
}

// isApart reports whether the journal says so. A Corosync of which nothing is known changes nothing.
func (d decision) isApart() bool { return !d.j.Apart.IsZero() && d.j.Joined.IsZero() }

// wasApart reports whether it was so at any time since the switch.
func (d decision) wasApart() bool { return d.kind() == OfTwo && !d.j.Apart.IsZero() }

// together is for how long the host has had its peer again.
func (d decision) together() time.Duration {
	if d.isApart() {
		return 0
	}
	return max(0, d.now.Sub(d.j.Joined))
}

// cutOff reports whether the new release could not show itself for long enough beside its peer.
func (d decision) cutOff() bool { return d.wasApart() && d.age() < judged }
