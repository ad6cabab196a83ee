package parachute

// left reports whether this host is the one of two that is left: the other one was taken out for
// good, and no other machine has its place yet. Nobody can say what the criteria ask of a
// peer, and a way that waited for one would never end (docs/adr/0101).
func (d decision) left() bool { return d.f.Kind == OfTwo && d.f.PeerGone }

// kind is what counts of a host for its proof and its return: the one that is left is judged as
// the only one of its site. It begins no way to another release all the same: that can wait
// until there are two.
func (d decision) kind() Kind {
	if d.left() {
		return Alone
	}
	return d.f.Kind
}
