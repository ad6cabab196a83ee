package state

// Membership is the set of hosts that Corosync sees.
type Membership struct {
	// Ring names this membership: no other one has its number, both hosts know it
	// by the same number, and a later membership of a host has a greater one.
	Ring uint64 `json:"ring"`
	// Members are the names of its nodes, this host included, sorted.
	Members []string `json:"members"`
	// Quorate is false on a host that has not seen its peer since it booted
	// (Corosync's wait_for_all) and was not granted quorum.
	Quorate bool `json:"quorate"`
}

// RepresentativeBits is the number of bits in a ring's number for its
// representative, a node id; the sequence number is above them.
const RepresentativeBits = 16

// ringStep is the number that Corosync adds to the sequence number for each
// membership that it forms, starting from the highest that any of its members
// knows (totemsrp).
const ringStep = 4

// RingFollows reports whether after is the very next membership of the same
// representative, so that no other one can lie between the two.
func RingFollows(before, after uint64) bool {
	return after == before+ringStep<<RepresentativeBits
}
