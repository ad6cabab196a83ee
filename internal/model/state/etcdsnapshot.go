package state

import (
	"net/netip"
	"time"
)

// EtcdSnapshot is everything that the two-node protocol looks at, as one host
// sees it. Times are measured since this host's boot, because a clock that
// jumps must not turn an old proof into a new one.
type EtcdSnapshot struct {
	Host string `json:"host"`
	Peer string `json:"peer"`
	// Now is the wall clock; it goes into the record and decides nothing.
	Now time.Time `json:"now"`
	// Nonce is fresh randomness, the id of a take-over that begins now.
	Nonce string `json:"nonce"`
	// Boot names this boot of this host.
	Boot string `json:"boot"`
	// Uptime is how long this host has been up.
	Uptime time.Duration `json:"uptime"`
	// Record is unknown where its file cannot be read. A file that does not
	// exist is a known record with the state none.
	Record    Fact[EtcdRecord]    `json:"record"`
	Data      Fact[EtcdData]      `json:"data"`
	Local     EtcdLocal           `json:"local"`
	Pacemaker EtcdPacemaker       `json:"pacemaker"`
	Statement Fact[EtcdStatement] `json:"statement"`
	Proofs    EtcdProofs          `json:"proofs"`
	// Addresses are those of this host on all its networks, where the peer may
	// ask it; sorted.
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// CopyState is the condition of a host's copy of the data.
type CopyState string

// The conditions of a copy.
const (
	CopyNone    CopyState = "none"    // nothing there
	CopyWhole   CopyState = "whole"   // etcd can start from it
	CopyDamaged CopyState = "damaged" // something is there that etcd refuses
)

// EtcdData is what lies in etcd's data directory.
type EtcdData struct {
	Copy    CopyState `json:"copy"`
	Cluster MemberID  `json:"cluster,omitempty"`
	Member  MemberID  `json:"member,omitempty"`
	// Members is the membership that the copy knows as committed.
	Members []EtcdMember `json:"members,omitempty"`
}

// EtcdMember is one member of etcd's membership.
type EtcdMember struct {
	ID      MemberID `json:"id"`
	Name    string   `json:"name,omitempty"` // empty until it started once
	Learner bool     `json:"learner,omitempty"`
	// InSync is true for a learner that the leader would promote.
	InSync bool `json:"inSync,omitempty"`
	// Marked is the sequence number of the member's record that the newest
	// acknowledged marker of this member names; zero without one.
	Marked uint64 `json:"marked,omitempty"`
}

// EtcdLocal is what the local etcd says.
type EtcdLocal struct {
	Running Fact[bool] `json:"running"`
	// Leader is zero where etcd runs and knows no leader.
	Leader Fact[MemberID] `json:"leader"`
	// Leaderless is how long it has known none.
	Leaderless time.Duration      `json:"leaderless,omitempty"`
	Members    Fact[[]EtcdMember] `json:"members"`
	// StandIn is the member in whose name the stand-in on this host speaks,
	// zero without one.
	StandIn Fact[MemberID] `json:"standIn"`
	// Stalled is how long nothing could be committed through the local etcd, zero
	// while commits succeed; stalls of a moment ago are included. It stands still
	// while etcd is stopped.
	Stalled time.Duration `json:"stalled,omitempty"`
	// Sick says why etcd on this host cannot work, by its own tests; empty where
	// they find nothing, or where none was made because commits succeed.
	Sick string `json:"sick,omitempty"`
	// Quarantine is until when a learner is not promoted, since this host's boot:
	// the pair could not commit together a moment ago.
	Quarantine time.Duration `json:"quarantine,omitempty"`
}

// EtcdPacemaker is what Corosync and Pacemaker say on this host.
type EtcdPacemaker struct {
	// Inert is true while Corosync has not seen the peer since boot and nobody
	// has granted quorum.
	Inert Fact[bool] `json:"inert"`
	// Contact is true while the peer is in the Corosync membership.
	Contact Fact[bool] `json:"contact"`
	// Ring names the current membership; every change gives it a new number on
	// both hosts.
	Ring uint64 `json:"ring"`
	// Joined is when the peer last joined the membership, since boot; zero for
	// not yet. A fence of before that moment proves nothing.
	Joined time.Duration `json:"joined,omitempty"`
	// Together is since when the peer was in every membership, since boot. Where
	// packets are lost Corosync forms one after the other of the same hosts, and
	// the peer joins in each. Zero where that is not known.
	Together time.Duration `json:"together,omitempty"`
	// Unseen is true where Joined is when the peer may have joined and left again,
	// in a membership that nobody here saw.
	Unseen bool `json:"unseen,omitempty"`
	// GivesWay is true while the peer is lost and has said that nobody reaches it,
	// and that it does not fence this host (decide/fencerace).
	GivesWay bool `json:"givesWay,omitempty"`
	// Leaving is true while Pacemaker stops the instance on this host.
	Leaving bool `json:"leaving,omitempty"`
	// LeavingFor is how long it has been stopping.
	LeavingFor time.Duration `json:"leavingFor,omitempty"`
}

// EtcdStatement is what a host publishes about itself, as one attribute: two
// attributes could arrive in either order.
type EtcdStatement struct {
	Boot string `json:"boot"`
	// Serial counts the statements of one boot; a reader ignores older ones.
	Serial uint64 `json:"serial"`
	// Ring is the membership in which the statement was composed. A statement
	// of another one says how things were before the hosts met.
	Ring uint64 `json:"ring"`
	// SeenSeq is the sequence number of the reader's record that the author
	// had read.
	SeenSeq uint64             `json:"seenSeq,omitempty"`
	Record  EtcdRecord         `json:"record"`
	Data    Fact[EtcdData]     `json:"data"`
	Running Fact[bool]         `json:"running"`
	Leads   bool               `json:"leads,omitempty"`
	StandIn Fact[MemberID]     `json:"standIn"`
	Members Fact[[]EtcdMember] `json:"members"`
	Leaving bool               `json:"leaving,omitempty"`
	// Stalled and Sick are those of the author's EtcdLocal. Stalled is rounded,
	// so that a statement is new every few seconds while nothing is committed:
	// one that does not change then comes from a host that hangs.
	Stalled time.Duration `json:"stalled,omitempty"`
	Sick    string        `json:"sick,omitempty"`
	// PeerStalled is the reader's own Stalled, as the author read it: an author
	// that works says something new while either of the two stalls.
	PeerStalled time.Duration `json:"peerStalled,omitempty"`
	// Leaderless is true where the author's etcd runs and knows no leader.
	Leaderless bool `json:"leaderless,omitempty"`
	// Addresses are the author's, on all its networks.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Age is how long ago the reader received it.
	Age time.Duration `json:"age,omitempty"`
}

// PowerOff is the only power state that counts as off.
const PowerOff = "Off"

// EtcdProofs is what is known about the peer from outside it.
type EtcdProofs struct {
	// Heard is the boot of this host in which it last heard from the peer that
	// the peer had not gone on alone.
	Heard string `json:"heard,omitempty"`
	// Power is what the peer's BMC answers now.
	Power  Fact[string]       `json:"power"`
	Fenced Fact[EtcdFenced]   `json:"fenced"`
	Human  Fact[Confirmation] `json:"human"`
}

// EtcdFenced is a fence that was carried out and read back.
type EtcdFenced struct {
	Target string `json:"target"`
	State  string `json:"state"` // as the BMC spelled it
	Boot   string `json:"boot"`  // of the host that fenced
	// At is when the state was read back, since that boot.
	At time.Duration `json:"at"`
}

// Confirmation is an administrator's statement that the peer is off.
type Confirmation struct {
	Who  string        `json:"who"`
	Why  string        `json:"why"`
	Boot string        `json:"boot"`
	At   time.Duration `json:"at"`
	// Force is set where the person accepts that newer writes of the peer are
	// lost.
	Force bool `json:"force,omitempty"`
}

// EtcdAction is one step of the two-node protocol.
type EtcdAction string

// The actions.
const (
	EtcdIdle         EtcdAction = "idle"           // all is as it should be
	EtcdWait         EtcdAction = "wait"           // something will happen without us
	EtcdAskHuman     EtcdAction = "ask-human"      // nothing will happen without a person, or without the peer
	EtcdAskFence     EtcdAction = "ask-fence"      // have Pacemaker fence the peer
	EtcdGrantQuorum  EtcdAction = "grant-quorum"   // end the inert state without having seen the peer
	EtcdWriteRecord  EtcdAction = "write-record"   // the verdict holds the record
	EtcdStart        EtcdAction = "start"          // with the data that are there, or as the learner that is listed
	EtcdStop         EtcdAction = "stop"           // etcd and a stand-in
	EtcdStartStandIn EtcdAction = "start-stand-in" // in the name of the verdict's member
	EtcdStopStandIn  EtcdAction = "stop-stand-in"  //
	EtcdRemove       EtcdAction = "remove-member"  // the verdict's member
	EtcdAddLearner   EtcdAction = "add-learner"    // for the peer
	EtcdPromote      EtcdAction = "promote"        // the verdict's member
	EtcdMark         EtcdAction = "mark"           // write the marker of the verdict's member and its Seq
	EtcdMoveLeader   EtcdAction = "move-leader"    // to the verdict's member
	EtcdEmpty        EtcdAction = "empty-copy"     // back up, then empty
)

// EtcdVerdict is the next step of one host, and why.
type EtcdVerdict struct {
	Action EtcdAction `json:"action"`
	// Rule is the id of the rule that decided.
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Next is what a person may type, where one is needed.
	Next string `json:"next,omitempty"`
	// Evidence is what the rule looked at, one sentence each.
	Evidence []string `json:"evidence,omitempty"`
	// Record is made durable before the step.
	Record *EtcdRecord `json:"record,omitempty"`
	Member MemberID    `json:"member,omitempty"`
	Seq    uint64      `json:"seq,omitempty"`
}
