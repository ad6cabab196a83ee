package state

import "time"

// ReachState is how well a host reaches its machine network, by its own
// evidence. It never proves anything about the peer.
type ReachState string

// What a host finds out about its own reach.
const (
	// ReachUnknown is where no neighbour but the peer is there to ask, and the
	// cable carries a signal.
	ReachUnknown ReachState = ""
	// ReachYes is where a gateway or another neighbour answers: packets get out
	// and answers come back.
	ReachYes ReachState = "reachable"
	// ReachNo is where the cable carries no signal, or nobody answers any more
	// of those that answered a moment ago.
	ReachNo ReachState = "cut-off"
)

// Reach is what a host knows about its own reach.
type Reach struct {
	State ReachState `json:"state,omitempty"`
	// Since is when this became so, since the host's boot.
	Since time.Duration `json:"since,omitempty"`
	Why   string        `json:"why,omitempty"`
	// Doubt is set while everybody who should have answered owes an answer, for
	// too short a time yet to say that this host is cut off.
	Doubt bool `json:"doubt,omitempty"`
}

// RaceTurn is whose turn it is where two hosts may fence each other.
type RaceTurn string

// The turns.
const (
	// RaceOrder is where nothing tells the hosts apart: the second by name waits.
	RaceOrder RaceTurn = "order"
	// RaceFirst is where the peer gives way, or is at fault: nothing to wait for.
	RaceFirst RaceTurn = "first"
	// RaceLast is where this host gives way: it fences only if the peer did not
	// fence it in the time that this leaves.
	RaceLast RaceTurn = "last"
)

// FenceRace is what the daemon of etcd tells the fence agent on its host.
type FenceRace struct {
	Turn RaceTurn `json:"turn"`
	Why  string   `json:"why,omitempty"`
	// Until is when this host's giving way ends, since its boot, or ended; zero
	// where it did not give way. The delay of the order counts from then.
	Until time.Duration `json:"until,omitempty"`
	// There is whether Corosync has the target in its membership. It is unknown
	// for a moment after the target is back, since a link that flaps loses it again,
	// and where it was reset meanwhile, or says nothing.
	There Fact[bool] `json:"there,omitzero"`
}

// RaceRequestPath is where the daemon of etcd takes a RaceRequest, on its
// socket; RacePeerPath is where it answers its peer, at RacePort of each of its
// addresses.
const (
	RaceRequestPath = "race"
	RacePeerPath    = "race"
	RacePort        = 2382
	// RaceBack is the parameter of a question to a peer that is there again.
	RaceBack = "back"
)

// RaceRequest is what the fence agent asks the daemon of etcd on its host.
type RaceRequest struct {
	Target string `json:"target"`
	// Readable is true once the target's BMC has answered.
	Readable bool `json:"readable,omitempty"`
	// Cut is true where the power is about to be cut.
	Cut bool `json:"cut,omitempty"`
}

// HeardRequestPath is where the daemon of etcd takes a HeardRequest, on its
// socket, and answers with a Fact[bool].
const HeardRequestPath = "heard"

// HeardRequest asks whether a host answers on a network that it shares with this
// one. The answer is unknown where nobody could ask it, or where this host is cut
// off, so that silence says nothing.
type HeardRequest struct {
	Target string `json:"target"`
}

// RaceAnswer is a promise not to fence the asker for a while.
type RaceAnswer struct {
	// GivesWay is how long the author will not fence the asker, from the moment
	// in which the question was sent; zero for no promise.
	GivesWay time.Duration `json:"givesWay,omitempty"`
	// Free is true where the author holds no promise of the asker, and is not
	// having its power cut.
	Free  bool  `json:"free,omitempty"`
	Reach Reach `json:"reach"`
}
