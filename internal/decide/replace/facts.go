package replace

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts is everything that a decision depends on. A fact that could not be found out is unknown,
// and leads to no step.
type Facts struct {
	Now  time.Time
	Host string // this host
	// Plan is the plan on this host's disk, nil if there is none. Wish is the last wish of the
	// command, nil if there is none.
	Plan *Plan
	Wish *Wish

	// From the report of this host's etcd keeper.

	Peer    string // the keeper's name of the other host
	Record  state.Fact[state.EtcdState]
	Contact state.Fact[bool] // the other host is in Corosync's membership
	Serves  state.Fact[bool] // etcd here has a leader and answers
	StandIn state.Fact[bool]
	// Voters is the number of voters. Learner is the id of a learner, zero if there is none.
	Voters  state.Fact[int]
	Learner state.Fact[state.MemberID]

	// About the old host.

	// Power is the reading of the old host's BMC, which was asked at PowerAt. Unread says why there
	// is none, empty if nobody asked, and Silent is true if that BMC gave no answer (Silence).
	Power   state.Fact[string]
	Unread  bmc.Reason
	Silent  bool
	PowerAt time.Time
	// Answers is true if something at the old host's address answers like a host of this
	// cluster. Alive is true if its kubelet renewed its Lease after the BMC was first read as
	// Off or was silent.
	Answers state.Fact[bool]
	Alive   state.Fact[bool]
	// OldAddress and OldMachine are the last ones that the cluster or this host knew.
	OldAddress string
	OldMachine state.Machine

	// About this host.

	// Ring has the names in corosync.conf, Known those in Pacemaker's CIB. Number is that of the old
	// host in corosync.conf, zero if it is not there.
	Ring   state.Fact[[]string]
	Number int
	Known  state.Fact[[]string]
	// Key is true if Corosync's key file on this host has the key of this plan.
	Key state.Fact[bool]
	// Refused is true if this host's own BMC refuses the account that the old host has.
	Refused state.Fact[bool]
	// Retirement is true if the file is there that tells the etcd keeper that it has no
	// peer. Misnamed is true if it names another peer than the keeper has: then the keeper does
	// not go by it.
	Retirement state.Fact[bool]
	Misnamed   bool
	// Device is true if the new host's device is that of this plan.
	Device state.Fact[bool]
	// Fences is true if Pacemaker has the new host's device, and no other host's.
	Fences state.Fact[bool]
	// OldDevice is true if the file with the old host's device is there although the new host has
	// another name.
	OldDevice state.Fact[bool]
	// Named is true if the site that the agent of this host was started with names the new host
	// and its BMC, and no old host.
	Named state.Fact[bool]
	// Taken says why the new host may not have its name, empty if it may. Only a new host with
	// another name than the old one needs it.
	Taken state.Fact[string]
	// Room is true if etcd's disk has room for three databases. Ships is true if this host has
	// a current release, from which the new host is installed.
	Room, Ships state.Fact[bool]

	// From the API of the cluster.

	// Lock is the ID in the cluster's copy of the plan, empty if there is no copy.
	Lock state.Fact[string]
	// Copied is the stage in that copy, empty if it tells none.
	Copied Stage
	// InForce says what that plan does, and how it is followed; empty if that is not known.
	InForce   string
	OldNode   state.Fact[Node]
	Pods      state.Fact[int] // pods that are bound to the old Node and hold the plan; Bound names the others (removal.Bound)
	Bound     []string
	Tombstone state.Fact[bool]
	// Given is true if the tombstone says that a host has the name again. While the site grows it
	// is that of the new host's name, and true if there is none.
	Given state.Fact[bool]
	// Token is true if the Secret has that of this plan, Account if the Secret of the new host's
	// BMC does. JoinKey is true if the cluster has a key of join secrets that the old host lacks.
	// Leftover is true if the old host's Secret is still there although the new host has another name.
	Token, JoinKey, Account, Leftover state.Fact[bool]
	// Volumes names the volumes whose data lie only on the old host.
	Volumes state.Fact[[]string]
	// Backup is the time of the newest good backup; zero for none.
	Backup state.Fact[time.Time]
	// Work says what else changes hosts now; empty for nothing. Upgrade says what a plan about a
	// host that was lost waits for in an upgrade.
	Work    state.Fact[string]
	Upgrade state.Fact[hold.Lost]
	// Moves says why no host comes, and none is replaced, since a move of the site is announced;
	// empty for no reason.
	Moves state.Fact[string]
	// ControlPlanes is the number of control planes that the site has for its life.
	ControlPlanes int

	// About the newcomer.

	// Asks is the newcomer that asked to enter last, at AskedAt; zero if none asked.
	Asks    Newcomer
	AskedAt time.Time
	// Arch is true if the newcomer has this host's architecture.
	Arch state.Fact[bool]
	// Reached is true if the new host's BMC answers this host and takes the account. Ours is
	// true if that BMC is part of this host, Matches if it is part of the newcomer that asks.
	Reached, Ours, Matches state.Fact[bool]
	// Verified is true if both hosts have tested that they can fence each other.
	Verified state.Fact[bool]

	// About this host while the site grows or shrinks.

	// Manifest is true if the file is there from which the etcd keeper runs etcd.
	Manifest state.Fact[bool]
	// Asked is true if Pacemaker has asked the etcd keeper to start etcd.
	Asked state.Fact[bool]
	// Kubelets is true while kubelet runs etcd, Podmans once podman does and has its data.
	Kubelets, Podmans state.Fact[bool]
	// Pod is true if kubelet's file of etcd is ready beside kubelet's folder, or in it. Boots is
	// true if kubelet starts at boot without Pacemaker. Runs is true while Corosync or Pacemaker
	// runs or starts at boot. Paired is true while this host has a file by which it is one of two:
	// Corosync's list, the record of etcd, a device. Halted is true if Pacemaker was told not to
	// start etcd.
	Pod, Boots, Runs, Paired, Halted state.Fact[bool]
	// Maintained is true if Pacemaker is in maintenance: it starts and stops nothing.
	Maintained state.Fact[bool]
	// Target is true if the site is written down that this host becomes.
	Target state.Fact[bool]
}

// Node has the parts of the Node of the old host's name.
type Node struct {
	There bool
	UID   string
	Ready bool
}

// Limits of time.
const (
	// fresh is the greatest age of a reading of a BMC, counted from the question. A machine
	// needs longer from its power button to Corosync.
	fresh = 10 * time.Second
	// wishLife is the time that a wish may wait for its gates.
	wishLife = 15 * time.Minute
	// asking is the time for which a newcomer counts as waiting after it asked. It asks every
	// second.
	asking = 10 * time.Second
)

func yes(f state.Fact[bool]) bool { return state.Is(f, true) }
func no(f state.Fact[bool]) bool  { return state.Is(f, false) }

func (f Facts) in(name string, list state.Fact[[]string]) bool {
	return list.Known && slices.Contains(list.Value, name)
}

// off reports whether the old host is known to be off in this moment, and says how. Silence
// of the host proves nothing. A silent BMC counts only if an administrator has named the machine
// by gone: its serial number or, if it has none, its UUID (MachineProblem).
func (f Facts) off(gone string) (proof string, ok bool) {
	if !no(f.Contact) || yes(f.Answers) || yes(f.Alive) || f.PowerAt.IsZero() || f.Now.Sub(f.PowerAt).Abs() > fresh {
		return "", false
	}
	switch {
	case state.Is(f.Power, state.PowerOff):
		return "its BMC reads Off", true
	case f.Silent && gone != "" && MachineProblem(gone, f.Plan.Old.Machine, f.Plan.Old.Name) == "":
		return fmt.Sprintf("%s said that the machine with the %s %s is off, and its BMC is silent", f.Plan.By, mark(f.Plan.Old.Machine), gone), true
	}
	return "", false
}

// silences say of each reason for which a BMC is silent what happened.
var silences = map[bmc.Reason]string{ //nolint:exhaustive // for any other reason something answers
	bmc.Unreachable: "there is no connection", bmc.Timeout: "it gives no answer in time", bmc.WrongServer: "at its address is that of another machine",
}

// Silence reports whether a BMC that could not be read counts as silent, so that a person's word takes
// the place of its reading. One that refuses the account, shows another certificate or fails may still be
// that of a machine with power, and a person can have it answer.
func Silence(r bmc.Reason) bool { return silences[r] != "" }

// early reports whether the newcomer asks to enter from the old host's address while that has to be
// silent.
func (f Facts) early() bool {
	return f.Plan != nil && f.waits() && yes(f.Answers) && f.Asks.Address == f.Plan.Old.Address
}

// asksForProof reports whether something of the old host is left that is taken out only while that
// host is known to be off.
func (f Facts) asksForProof() bool {
	name := f.Plan.Old.Name
	return f.in(name, f.Ring) || f.in(name, f.Known) || f.OldNode.Known && f.oldNode() || f.Pods.Known && f.Pods.Value > 0 || !f.Plan.Reloaded || no(f.Key)
}

// waits reports whether the newcomer is there and waits to be let in.
func (f Facts) waits() bool {
	return f.Asks.Machine.UUID+f.Asks.Machine.Serial != "" && f.Now.Sub(f.AskedAt).Abs() <= asking
}
