package sim

// The places of machines that may have a member of etcd. The first two are those of the two hosts,
// the third one is that of a third control plane.
const (
	places = 3
	third  = 2
)

// paths holds one value for each direction between two places.
type paths [places][places]bool

// apart is a cut between the two hosts.
var apart = paths{{false, true}, {true, false}}

// at returns the machine of a place. In the third one there is a machine only while w.trio is set.
func (w *world) at(place int) *host {
	if place == third {
		return &w.trio.machine
	}
	return &w.hosts[place]
}

// machines is the number of machines that may have a member.
func (w *world) machines() int {
	if w.trio != nil {
		return places
	}
	return third
}

// placeOf returns the place of a member of another machine than that of place i. Between two hosts
// that is the other one's, also of a member that nobody has any more.
func (w *world) placeOf(i int, m member) int {
	if w.trio == nil {
		return 1 - i
	}
	return m.at
}

// others returns the members to which the member of a place sends: one of each other place, a voter
// before a learner.
func (w *world) others(i int) (out []member) {
	h := w.at(i)
	if w.trio == nil {
		if o, ok := h.other(); ok {
			out = append(out, o)
		}
		return out
	}
	for place := range places {
		var found member
		for _, m := range h.members {
			if m.at == place && place != i && (found.id == 0 || !m.learner) {
				found = m
			}
		}
		if found.id != 0 {
			out = append(out, found)
		}
	}
	return out
}

// memberName is the name that etcd has of a member.
func (w *world) memberName(m member) string {
	if w.trio == nil {
		return "etcd"
	}
	return placeNames[m.at]
}
