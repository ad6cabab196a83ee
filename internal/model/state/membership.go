package state

// Membership is what Corosync says about who is there.
type Membership struct {
	// Ring names this membership: no other one has its number, both hosts know
	// it by the same one, and a later membership of a host has a greater one.
	Ring uint64 `json:"ring"`
	// Members are the names of the nodes in it, this host's among them, sorted.
	Members []string `json:"members"`
	// Quorate is false on a host that has not seen its peer since it booted
	// (Corosync's wait_for_all) and was not granted quorum.
	Quorate bool `json:"quorate"`
}

// RepresentativeBits is the room in a ring's number for its representative, a
// node id; the sequence number stands above it.
const RepresentativeBits = 16

// ringStep is by how much Corosync raises the sequence number for each membership
// that it forms, counted from the highest that any of its members knows (totemsrp).
const ringStep = 4

// RingFollows reports whether no other membership can lie between two of one
// representative: after is the very next.
func RingFollows(before, after uint64) bool {
	return after == before+ringStep<<RepresentativeBits
}
