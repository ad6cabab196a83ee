package replace

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts is everything that a decision depends on. What could not be found out is unknown,
// and leads to no step.
type Facts struct {
	Now  time.Time
	Host string // this host
	// Plan is the one on this host's disk, nil for none. Wish is what the command wrote
	// last, nil for nothing.
	Plan *Plan
	Wish *Wish

	// What the etcd keeper of this host reports.

	Peer    string // as the keeper calls the other host
	Record  state.Fact[state.EtcdState]
	Contact state.Fact[bool] // the other host is in Corosync's membership
	Serves  state.Fact[bool] // etcd here has a leader and answers
	StandIn state.Fact[bool]
	// Voters is the number of voters. Learner is a member without a vote, zero for none.
	Voters  state.Fact[int]
	Learner state.Fact[state.MemberID]

	// Of the old host.

	// Power is what the BMC of the old host reads, asked at PowerAt. Silent is true if
	// that BMC gave no answer then.
	Power   state.Fact[string]
	Silent  bool
	PowerAt time.Time
	// Answers is true if something answers at the old host's address as a host of this
	// cluster does. Alive is true if its kubelet renewed its Lease after the BMC was
	// read as Off.
	Answers state.Fact[bool]
	Alive   state.Fact[bool]
	// OldAddress and OldMachine are as this cluster knew them.
	OldAddress string
	OldMachine state.Machine

	// Of this host.

	// Ring are the names in corosync.conf, Known those in Pacemaker's CIB.
	Ring  state.Fact[[]string]
	Known state.Fact[[]string]
	// Key is true if Corosync's key file here is the one of this plan.
	Key state.Fact[bool]
	// Refused is true if this host's own BMC refuses the account that the old host has.
	Refused state.Fact[bool]
	// Retirement is true while the file stands by which the etcd keeper knows that
	// there is no peer.
	Retirement state.Fact[bool]
	// Device is true if the device of the new host is the one of this plan.
	Device state.Fact[bool]
	// Fences is true if Pacemaker has the new host's device, and none of another host.
	Fences state.Fact[bool]
	// Room is true if the disk has room for three databases. Ships is true if the release
	// and etcd's image are here.
	Room, Ships state.Fact[bool]

	// Of the cluster, by the API.

	// Lock is the ID in the cluster's copy of the plan, empty for none.
	Lock      state.Fact[string]
	OldNode   state.Fact[Node]
	Pods      state.Fact[int] // pods that are bound to the old Node
	Tombstone state.Fact[bool]
	// Given is true if the tombstone says that the name belongs to a host again.
	Given state.Fact[bool]
	// Token and JoinKey are true if the Secrets have those of this plan, Account if the
	// Secret of the new host's BMC does, Leftover if the old host's Secret stands though
	// the new one has another name.
	Token, JoinKey, Account, Leftover state.Fact[bool]
	// Volumes are those whose data lie on the old host alone.
	Volumes state.Fact[[]string]
	// Backup is the time of the newest good backup; zero for none.
	Backup state.Fact[time.Time]
	// Work is what else changes hosts now; empty for nothing.
	Work state.Fact[string]
	// ControlPlanes is the number that the site has for its life.
	ControlPlanes int

	// Of the newcomer.

	// Asks is what asked to enter last, at AskedAt; its machine is zero for nobody.
	Asks    Newcomer
	AskedAt time.Time
	// Arch is true if the newcomer is of this host's architecture.
	Arch state.Fact[bool]
	// Reached is true if the BMC of the new host answers from here with its account. Ours
	// is true if it is part of this host, Matches if it is part of the newcomer that asks.
	Reached, Ours, Matches state.Fact[bool]
	// Verified is true if both hosts have tested that they can fence each other.
	Verified state.Fact[bool]
}

// Node is the Node of the old host's name.
type Node struct {
	There bool
	UID   string
	Ready bool
}

// The times that count.
const (
	// fresh is how old a reading of a BMC may be, counted from the question: less than a
	// machine takes from its power button to Corosync.
	fresh = 10 * time.Second
	// wishLife is how long a wish may wait for its gates.
	wishLife = 15 * time.Minute
	// asking is how long ago a newcomer may have asked and still counts as waiting: it asks
	// every second.
	asking = 10 * time.Second
	// backupAge is how old the newest good backup may be.
	backupAge = 4 * time.Hour
)

func yes(f state.Fact[bool]) bool { return state.Is(f, true) }
func no(f state.Fact[bool]) bool  { return state.Is(f, false) }

func (f Facts) in(name string, list state.Fact[[]string]) bool {
	return list.Known && slices.Contains(list.Value, name)
}

// off reports whether the old host is known to be off in this moment, and how. Silence of
// the host itself proves nothing, so a silent BMC needs an administrator who named the
// machine.
func (f Facts) off(gone string) (proof string, ok bool) {
	if !no(f.Contact) || yes(f.Answers) || yes(f.Alive) || f.PowerAt.IsZero() || f.Now.Sub(f.PowerAt).Abs() > fresh {
		return "", false
	}
	switch {
	case state.Is(f.Power, state.PowerOff):
		return "its BMC reads Off", true
	case f.Silent && gone != "" && gone == f.Plan.Old.Machine.Serial:
		return f.Plan.By + " said that the machine with the serial number " + gone + " is off, and its BMC is silent", true
	}
	return "", false
}

// waits reports whether the newcomer is there and waits to be let in.
func (f Facts) waits() bool {
	return f.Asks.Machine.UUID+f.Asks.Machine.Serial != "" && f.Now.Sub(f.AskedAt).Abs() <= asking
}
