package state

import "time"

// EtcdSocketPath is the socket on which the etcd keeper answers; only root may
// ask.
const EtcdSocketPath = "/run/holdfast/etcd/agent.sock"

// EtcdWish is the state of etcd that Pacemaker wants on this host.
type EtcdWish string

// The wishes.
const (
	EtcdNotAsked EtcdWish = "not-asked" // Pacemaker has asked for nothing since boot
	EtcdStarted  EtcdWish = "started"
	EtcdStopped  EtcdWish = "stopped"
)

// EtcdWishNote keeps the wanted state of etcd on this host, and the time of the
// request.
type EtcdWishNote struct {
	Wish EtcdWish `json:"wish"`
	// At is the time of the request, since the boot named Boot.
	At   time.Duration `json:"at"`
	Boot string        `json:"boot"`
}

// EtcdReport is the etcd keeper's answer to questions about its host.
type EtcdReport struct {
	Wish     EtcdWish     `json:"wish"`
	Snapshot EtcdSnapshot `json:"snapshot"`
	Verdict  EtcdVerdict  `json:"verdict"`
	// At is the time of the snapshot; Since is the time for which the same rule has
	// decided.
	At    time.Time     `json:"at"`
	Since time.Duration `json:"since"`
	// Down is the time for which etcd has been down while it should run.
	Down time.Duration `json:"down,omitempty"`
	// Outdated is true while etcd runs by another manifest than the present one on
	// this host; unknown if it does not run here under podman, or if nobody knows by
	// which one it runs.
	Outdated Fact[bool] `json:"outdated"`
	// Problem is the error of the last step, empty if it worked.
	Problem string `json:"problem,omitempty"`
	// Reach is this host's knowledge of its own reach.
	Reach Reach `json:"reach,omitzero"`
	// StandInOutcome tells how the stand-in of the last take-over ended, and StandIn
	// describes it. Both are empty if none has ended in this boot.
	StandInOutcome StandInOutcome `json:"standInOutcome,omitempty"`
	StandIn        string         `json:"standIn,omitempty"`
}

// StandInOutcome tells how a stand-in ended (payload/standin/README.md).
type StandInOutcome string

// The outcomes.
const (
	StandInDone        StandInOutcome = "done"
	StandInNothingToDo StandInOutcome = "nothing-to-do" // the survivor was the only voter already
	StandInRefused     StandInOutcome = "refused"
	StandInUnfinished  StandInOutcome = "unfinished"
)

// Works reports whether the survivor takes writes as the only voter.
func (o StandInOutcome) Works() bool { return o == StandInDone || o == StandInNothingToDo }
