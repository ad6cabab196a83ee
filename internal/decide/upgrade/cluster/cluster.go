// Package cluster decides the next step of an upgrade of a whole site: who has the
// turn, when the way back is closed, and when an upgrade waits for a person.
//
// It remembers nothing: all that outlives a step stands in the record, in the
// journals of the hosts, or can be seen.
package cluster

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Phase is how far an upgrade is.
type Phase string

// The phases.
const (
	Idle Phase = "Idle"
	// Offered: a release is known by its digest, and nobody has asked for it yet.
	Offered Phase = "Offered"
	// Fetching: the hosts fetch it.
	Fetching Phase = "Fetching"
	// Checked: it lies on every host, and the gates are asked.
	Checked Phase = "Checked"
	// Hosts: one host after the other goes to it.
	Hosts Phase = "Hosts"
	// Parts: the parts that run in the cluster follow, the operator last.
	Parts Phase = "Parts"
	// Proving: the site shows for a time that it is healthy. The way back is open.
	Proving Phase = "Proving"
	// Committing: the way back is closed, and the functional level rises.
	Committing Phase = "Committing"
	// Returning: the site goes back to the old release.
	Returning Phase = "Returning"
)

// Record is what the site remembers of an upgrade, in etcd. Its zero value stands for
// none.
type Record struct {
	// Upgrade identifies the upgrade.
	Upgrade string
	// From and To are the digests of the two releases.
	From, To string
	// Planes is how many control planes the site had when the upgrade began, also one without a node;
	// 0 if nobody has counted them, as operators of earlier releases do not.
	Planes int
	// Started is true once somebody asked for it, Returning once the site goes back.
	Started, Returning bool
	// NoWayBack is written before anything that the old release could not read.
	NoWayBack bool
	// Turns names the hosts that may be at work. Attempts says which attempt of each the turn is for;
	// nil on the way back, and of an operator of an earlier release.
	Turns    []string
	Attempts map[string]int
	// Healthy is for how long the site was healthy on the new release. Seen is when
	// it was last seen healthy; zero if it was not.
	Healthy time.Duration
	Seen    time.Time
	// Backup is the backup that was asked for last; its zero value for none.
	Backup BackupWish
	// Rollout is the part whose pods are awaited; its zero value for none. Settled is true
	// once the pods of all parts ran for a while as the new release has them.
	Rollout Rollout
	Settled bool
	// Failed is why the parts go back, or went back, by themselves; empty if they do not.
	Failed string
}

// Rollout is a part whose pods are awaited.
type Rollout struct {
	Part string `json:"part"`
	// Since is when the wait began, and Seen when somebody last looked.
	Since time.Time `json:"since,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// Runs is since when the pods of all parts run.
	Runs time.Time `json:"runs,omitzero"`
}

// BackupWish is a wish for a backup: of which control plane, and its text as it stands at
// the node of that.
type BackupWish struct {
	Host string `json:"host"`
	Text string `json:"text"`
}

// Wish is what a person wants.
type Wish struct {
	// Release is the digest that ClusterVersion names; empty if it names none.
	Release string
	// Upgrade identifies the wish.
	Upgrade string
	// Offer is the digest of a release that hosts fetch before anybody wants it to be
	// installed; empty for none.
	Offer string
	// Start is true once an offered release is to be installed. Commit is true once
	// the soak is to end. Paused says why a person has paused it.
	Start, Commit bool
	Paused        string
}

// Host is what is known of one host.
type Host struct {
	Name   string
	Worker bool
	// Leader and VIP tell whether it leads etcd, and holds a VIP.
	Leader, VIP bool
	// Present is true while it answers, Well while nothing is wrong with it, and
	// Whole once everything of the new release lies there.
	Present, Well, Whole state.Fact[bool]
	// Old is true once everything of the old release lies there, too.
	Old state.Fact[bool]
	// Votes is true while its etcd answers and votes; a worker has none.
	Votes state.Fact[bool]
	// Running is the digest of the release that runs there.
	Running state.Fact[string]
	// Journal is what the host last said of its way.
	Journal parachute.Journal
	// Held is what the host says if it holds and a person should look; empty if it goes
	// on.
	Held string
	// Said is when it last said anything; zero if nobody knows.
	Said time.Time
	// Raised is true once it works at the functional level of its release, Servers once
	// its API server does; a worker has none.
	Raised, Servers state.Fact[bool]
}

// Part is something that runs in the cluster and not on a host.
type Part struct {
	Name    string
	Release state.Fact[string]
	// Pending says which of its pods do not run as its release has them; empty if all do.
	Pending state.Fact[string]
	// Undone is why the host that brought its new release has set it back: it did not start.
	// It is empty if that has not happened. Stuck is the same of its old release, on the way back:
	// the host tries again.
	Undone, Stuck string
}

// Site is all that Next decides from.
type Site struct {
	Now    time.Time
	Record Record
	Wish   Wish
	// Running is the digest of the release that the site runs when no upgrade is
	// under way.
	Running string
	Hosts   []Host
	// ControlPlanes is how many the site has by its configuration, 0 if that is not known. One may
	// have no node.
	ControlPlanes int
	// Parts are in the order in which they follow: the operator is the last.
	Parts []Part
	// Plan says which plan changes the control planes; empty if none is known to.
	Plan string
	// Raises is true if the commit raises the functional level.
	Raises bool
	// PartsReturn is true if the operator of the old release knows of parts that went back
	// by themselves. One that does not would bring them once more.
	PartsReturn bool
	// Closed are the gates that hold the next host, or the commit. They are of the
	// stage that Stage names.
	Closed []gate.Gate
	// Last are the gates that are closed when the way back would be closed now. They hold
	// nothing else, and a soak goes on.
	Last []gate.Gate
	// Ask is the wish for a backup that would be made now; its zero value if none may be.
	Ask BackupWish
	// Soak is how long the site is to be healthy; SoakOff leaves the commit to a
	// person.
	Soak    time.Duration
	SoakOff bool
	// MaxUnavailable is how many workers may be at work at the same time; 0 means 1.
	MaxUnavailable int
}

// Do is what the operator does.
type Do string

// What the operator does. Each can be done again.
const (
	Rest Do = "rest"
	// Write writes the record, and nothing else.
	Write Do = "write"
	// Fetch has the hosts fetch the release.
	Fetch Do = "fetch"
	// Await waits for the hosts.
	Await Do = "await"
	// Bring brings a part to a release.
	Bring Do = "bring"
	// Raise brings a host to the new functional level.
	Raise Do = "raise"
	// Pause waits for a person, or for something that passes.
	Pause Do = "pause"
)

// Step is the next step of an upgrade.
type Step struct {
	Phase Phase
	Do    Do
	// Record is written before all else.
	Record Record
	// Hosts are those that the step is about, Part and Release what is brought.
	Hosts         []string
	Part, Release string
	// Kubelet is true if a host may bring its kubelet to the new functional level too.
	Kubelet bool
	// Why explains the step to people. Refused says which wish does not count.
	Why, Refused string

	// rolls is true if the step waits for the pods of a part.
	rolls bool
}

// Turn returns what the cluster wants of a host, as the record says it.
func (r Record) Turn(host string) parachute.Turn {
	t := parachute.Turn{Wish: parachute.Stay, Upgrade: r.Upgrade, From: r.From, To: r.To}
	for _, name := range r.Turns {
		if name == host && r.Returning && !r.NoWayBack {
			t.Wish = parachute.GoBack
		} else if name == host {
			t.Wish, t.Attempt = parachute.Go, r.Attempts[host]
		}
	}
	return t
}
