package state

import "time"

// EtcdSocketPath is where the agent of etcd answers; only root may ask.
const EtcdSocketPath = "/run/holdfast/etcd/agent.sock"

// EtcdWish is what Pacemaker wants of etcd on this host.
type EtcdWish string

// The wishes.
const (
	EtcdNotAsked EtcdWish = "not-asked" // nothing was asked for since boot
	EtcdStarted  EtcdWish = "started"
	EtcdStopped  EtcdWish = "stopped"
)

// EtcdWishNote is what is wanted of etcd on this host, and since when.
type EtcdWishNote struct {
	Wish EtcdWish `json:"wish"`
	// At is when it was asked for, since the boot named Boot.
	At   time.Duration `json:"at"`
	Boot string        `json:"boot"`
}

// EtcdReport is what the agent of etcd on a host tells whoever asks.
type EtcdReport struct {
	Wish     EtcdWish     `json:"wish"`
	Snapshot EtcdSnapshot `json:"snapshot"`
	Verdict  EtcdVerdict  `json:"verdict"`
	// At is when the snapshot was taken; Since is how long the verdict's rule
	// has been the same.
	At    time.Time     `json:"at"`
	Since time.Duration `json:"since"`
	// Down is how long etcd has been down while it should run.
	Down time.Duration `json:"down,omitempty"`
	// Outdated is true while etcd runs by another manifest than the one that
	// lies on this host now; unknown where it does not run here under podman.
	Outdated Fact[bool] `json:"outdated"`
	// Problem is what the last step ran into, empty where it worked.
	Problem string `json:"problem,omitempty"`
	// Reach is what this host knows of its own reach.
	Reach Reach `json:"reach,omitzero"`
	// StandIn is how the last take-over went, as the stand-in told it.
	StandIn string `json:"standIn,omitempty"`
}
