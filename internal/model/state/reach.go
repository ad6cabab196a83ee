package state

import "time"

// ReachState says how well a host reaches its machine network, by its own
// evidence. It never proves anything about the peer.
type ReachState string

// The results of a host's look at its own reach.
const (
	// ReachUnknown: no neighbour but the peer is there to ask, and the cable
	// carries a signal.
	ReachUnknown ReachState = ""
	// ReachYes: a gateway or another neighbour answers, so packets get out and
	// answers come back.
	ReachYes ReachState = "reachable"
	// ReachNo: the cable carries no signal, or none of the neighbours that answered
	// a moment ago answers any more.
	ReachNo ReachState = "cut-off"
)

// Reach holds a host's knowledge of its own reach.
type Reach struct {
	State ReachState `json:"state,omitempty"`
	// Since is the time of the last change of State, since the host's boot.
	Since time.Duration `json:"since,omitempty"`
	Why   string        `json:"why,omitempty"`
	// Doubt is set while all neighbours that should have answered owe an answer,
	// but for too short a time to call this host cut off.
	Doubt bool `json:"doubt,omitempty"`
}

// RaceTurn says whose turn it is when two hosts may fence each other.
type RaceTurn string

// The turns.
const (
	// RaceOrder: nothing tells the hosts apart, so the second by name waits.
	RaceOrder RaceTurn = "order"
	// RaceFirst: the peer gives way, or is at fault; there is nothing to wait for.
	RaceFirst RaceTurn = "first"
	// RaceLast: this host gives way. It fences only if the peer has not fenced it
	// by then.
	RaceLast RaceTurn = "last"
)

// FenceRace is the etcd keeper's answer to the fence agent on its host.
type FenceRace struct {
	Turn RaceTurn `json:"turn"`
	Why  string   `json:"why,omitempty"`
	// Until is the time at which this host's giving way ends or ended, since its
	// boot; zero if it did not give way. The delay of the order counts from then.
	Until time.Duration `json:"until,omitempty"`
	// There says whether Corosync has the target in its membership. It is unknown
	// for a moment after the target is back, because a link that flaps loses it
	// again. It is also unknown if the target was reset meanwhile, or publishes
	// nothing.
	There Fact[bool] `json:"there,omitzero"`
}

// RaceRequestPath is the path of a RaceRequest on the etcd keeper's socket;
// RacePeerPath is the path at which the keeper answers its peer, at RacePort of
// each of its addresses.
const (
	RaceRequestPath = "race"
	RacePeerPath    = "race"
	RacePort        = 2382
	// RaceBack is the parameter of a question to a peer that is back.
	RaceBack = "back"
)

// RaceRequest is a question of the fence agent to the etcd keeper on its host.
type RaceRequest struct {
	Target string `json:"target"`
	// Readable is true once the target's BMC has answered.
	Readable bool `json:"readable,omitempty"`
	// Cut is true if the power is about to be cut.
	Cut bool `json:"cut,omitempty"`
}

// HeardRequestPath is the path of a HeardRequest on the etcd keeper's socket.
// The answer is a Fact[bool].
const HeardRequestPath = "heard"

// HeardRequest asks whether a host answers on a network that it shares with this
// one. The answer is unknown if nobody could ask it, or if this host is cut off,
// so that silence says nothing.
type HeardRequest struct {
	Target string `json:"target"`
}

// RaceAnswer is a promise not to fence the asker for a while.
type RaceAnswer struct {
	// GivesWay is the time for which the author will not fence the asker, from the
	// moment in which the question was sent; zero for no promise.
	GivesWay time.Duration `json:"givesWay,omitempty"`
	// Free is true if the author neither holds a promise of the asker nor is having
	// the asker's power cut.
	Free  bool  `json:"free,omitempty"`
	Reach Reach `json:"reach"`
}
