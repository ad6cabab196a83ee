package rotation

import (
	"slices"
	"time"
)

// Followed is a rotation in which a host took part.
type Followed struct {
	// Of is the name of its wish.
	Of string `json:"of"`
	// Began is when it began; zero if the host does not know.
	Began time.Time `json:"began,omitzero"`
}

// Past lists the rotations in which a host took part, the last one last. It tells a wish
// that came back with an older copy of etcd from one that is new.
type Past []Followed

// Last returns the name of the last one, empty for none.
func (p Past) Last() string {
	if len(p) == 0 {
		return ""
	}
	return p[len(p)-1].Of
}

// With returns the past after another rotation, the same if that is the last one.
func (p Past) With(f Followed) Past {
	if p.Last() == f.Of {
		return p
	}
	return append(slices.Clip(p), f)
}

// Undone reports whether a wish is older than the last one that the host has followed.
// Such a wish was replaced, and comes from a backup of etcd: whoever follows it goes back
// to an authority that was dropped.
//
// Names prove it, and no clock counts: a salt is never used twice. The clock counts only for
// a rotation of which the host knows nothing though it is past its first phase: each host
// notes a rotation in that one. So it got so far before the host came, or while the host was
// away or had other files. In its first phase a host trusts one authority more, no more, and the
// rotation waits for all who do not follow.
func (p Past) Undone(f Followed, phase Phase) bool {
	switch {
	case len(p) == 0 || p.Last() == f.Of:
		return false
	case slices.ContainsFunc(p, func(other Followed) bool { return other.Of == f.Of }):
		return true
	}
	return phase != Trust && !f.Began.IsZero() && f.Began.Before(p[len(p)-1].Began)
}
