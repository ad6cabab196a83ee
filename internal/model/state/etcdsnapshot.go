package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// EtcdSnapshot holds all input of the two-node protocol, as one host sees it.
// Times count from this host's boot, because a clock that jumps must not turn an
// old proof into a new one.
type EtcdSnapshot struct {
	Host string `json:"host"`
	Peer string `json:"peer"`
	// Now is the wall clock; it goes into the record and decides nothing.
	Now time.Time `json:"now"`
	// Nonce is fresh randomness, the id of a take-over that begins now.
	Nonce string `json:"nonce"`
	// Boot names this boot of this host.
	Boot string `json:"boot"`
	// Uptime is the time since this host booted.
	Uptime time.Duration `json:"uptime"`
	// Record is unknown if its file cannot be read. If the file does not exist, the
	// record is known, with the state none.
	Record    Fact[EtcdRecord]    `json:"record"`
	Data      Fact[EtcdData]      `json:"data"`
	Local     EtcdLocal           `json:"local"`
	Pacemaker EtcdPacemaker       `json:"pacemaker"`
	Statement Fact[EtcdStatement] `json:"statement"`
	Proofs    EtcdProofs          `json:"proofs"`
	Third     EtcdThird           `json:"third,omitzero"`
	// Addresses are this host's on all its networks, at which the peer may ask it;
	// sorted.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Hardware holds the hardware addresses of the NICs that join this host with
	// others, sorted; empty if they are not known, or too many to tell.
	Hardware []string `json:"hardware,omitempty"`
}

// CopyState is the condition of a host's data directory of etcd.
type CopyState string

// The conditions of a data directory.
const (
	CopyNone    CopyState = "none"    // nothing there
	CopyWhole   CopyState = "whole"   // etcd can start from it
	CopyDamaged CopyState = "damaged" // it holds data that etcd refuses
)

// EtcdData describes the content of etcd's data directory.
type EtcdData struct {
	Copy    CopyState `json:"copy"`
	Cluster MemberID  `json:"cluster,omitempty"`
	Member  MemberID  `json:"member,omitempty"`
	// Reason tells why it is not whole, or why nothing starts etcd. It is not sent to
	// the peer.
	Reason string `json:"reason,omitempty"`
	// NoSpace is true if etcd ended each time it was started lately, and its disk is
	// full. It says nothing against the data.
	NoSpace bool `json:"noSpace,omitempty"`
	// NoStart is true if nothing could make a process of etcd lately: podman fails, for
	// example. It says nothing against the data.
	NoStart bool `json:"noStart,omitempty"`
	// Members is the membership that the data directory holds as committed.
	Members []EtcdMember `json:"members,omitempty"`
}

// Barred reports whether etcd cannot run on its host for a reason that does not lie
// in the data directory, which is as good as before.
func (d EtcdData) Barred() bool { return d.NoSpace || d.NoStart }

// EtcdMember is one member of etcd's membership.
type EtcdMember struct {
	ID      MemberID `json:"id"`
	Name    string   `json:"name,omitempty"` // empty until it started once
	Learner bool     `json:"learner,omitempty"`
	// InSync is true for a learner that the leader would promote.
	InSync bool `json:"inSync,omitempty"`
	// Marked is the sequence number in the newest acknowledged marker of this
	// member. It is that of a record of the member; zero without a marker.
	Marked uint64 `json:"marked,omitempty"`
}

// EtcdLocal holds the state of the local etcd.
type EtcdLocal struct {
	Running Fact[bool] `json:"running"`
	// Leader is zero if etcd runs and knows no leader.
	Leader Fact[MemberID] `json:"leader"`
	// Leaderless is the time for which it has known none.
	Leaderless time.Duration      `json:"leaderless,omitempty"`
	Members    Fact[[]EtcdMember] `json:"members"`
	// StandIn is the member in whose name the stand-in on this host acts, zero
	// without a stand-in.
	StandIn Fact[MemberID] `json:"standIn"`
	// Stalled is the time for which nothing could be committed through the local
	// etcd, zero while commits succeed; stalls of a moment ago are included. It
	// does not change while etcd is stopped.
	Stalled time.Duration `json:"stalled,omitempty"`
	// Sick says why etcd on this host cannot work, by its own tests; empty if they
	// find nothing, or if none was made because commits succeed.
	Sick string `json:"sick,omitempty"`
	// Quarantine is the time before which a learner is not promoted, since this
	// host's boot: the pair failed to commit together a moment ago.
	Quarantine time.Duration `json:"quarantine,omitempty"`
}

// EtcdPacemaker holds what Corosync and Pacemaker report on this host.
type EtcdPacemaker struct {
	// Inert is true while Corosync has not seen the peer since boot and nobody
	// has granted quorum.
	Inert Fact[bool] `json:"inert"`
	// Contact is true while the peer is in the Corosync membership.
	Contact Fact[bool] `json:"contact"`
	// Ring names the current membership; every change gives it a new number on both
	// hosts.
	Ring uint64 `json:"ring"`
	// Joined is the time at which the peer last joined the membership, since boot;
	// zero for not yet. A fence before that moment proves nothing.
	Joined time.Duration `json:"joined,omitempty"`
	// Together is the time since which the peer was in every membership, since
	// boot. If packets are lost, Corosync forms one membership after the other of
	// the same hosts, and the peer joins in each. Zero if unknown.
	Together time.Duration `json:"together,omitempty"`
	// Unseen is true if Joined is only the time at which the peer may have joined
	// and left again, in a membership that nobody here saw.
	Unseen bool `json:"unseen,omitempty"`
	// GivesWay is true while the peer is lost and has published that nobody reaches
	// it, and that it does not fence this host (decide/fencerace).
	GivesWay bool `json:"givesWay,omitempty"`
	// Leaving is true while Pacemaker stops the instance on this host.
	Leaving bool `json:"leaving,omitempty"`
	// LeavingFor is the time for which it has been stopping.
	LeavingFor time.Duration `json:"leavingFor,omitempty"`
}

// EtcdStatement is the statement that a host publishes about its etcd, in a single
// attribute: two attributes could arrive in either order.
type EtcdStatement struct {
	// Format is the number of the form; the first one is written without it.
	Format int    `json:"format,omitempty"`
	Boot   string `json:"boot"`
	// Serial counts the statements of one boot; a reader ignores older ones.
	Serial uint64 `json:"serial"`
	// Ring is the membership in which the statement was composed. A statement of
	// another membership describes the time before the hosts met.
	Ring uint64 `json:"ring"`
	// SeenSeq is the sequence number of the reader's record that the author had
	// read.
	SeenSeq uint64             `json:"seenSeq,omitempty"`
	Record  EtcdRecord         `json:"record"`
	Data    Fact[EtcdData]     `json:"data"`
	Running Fact[bool]         `json:"running"`
	Leads   bool               `json:"leads,omitempty"`
	StandIn Fact[MemberID]     `json:"standIn"`
	Members Fact[[]EtcdMember] `json:"members"`
	Leaving bool               `json:"leaving,omitempty"`
	// Stalled and Sick are those of the author's EtcdLocal. Stalled is rounded, so
	// that a statement changes every few seconds while nothing is committed: one
	// that does not change comes from a host that hangs.
	Stalled time.Duration `json:"stalled,omitempty"`
	Sick    string        `json:"sick,omitempty"`
	// PeerStalled is the reader's own Stalled, as the author read it: so the
	// statement of a working author changes while either of the two stalls.
	PeerStalled time.Duration `json:"peerStalled,omitempty"`
	// Leaderless is true if the author's etcd runs and knows no leader.
	Leaderless bool `json:"leaderless,omitempty"`
	// Earlier is the part of Stalled from before it knew no leader, such as a stall of
	// etcd's former run, rounded. Authors of earlier releases tell none.
	Earlier time.Duration `json:"earlier,omitempty"`
	// Addresses are the author's, on all its networks. Hardware holds the hardware
	// addresses of its NICs there; authors of earlier releases tell none.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Hardware  []string     `json:"hardware,omitempty"`
	// Age is the time since the reader received it.
	Age time.Duration `json:"age,omitempty"`
}

// etcdStatementFormat is the number that this release writes, by leaving it out, and
// the highest that it reads. A field that changes what a reader may conclude gets a
// higher one.
const etcdStatementFormat = 1

// DecodeEtcdStatement reads a statement. It ignores fields that it does not know. A
// statement of a higher number, or with a state of a record that it does not know, is
// an error: the peer counts as if it had said nothing.
func DecodeEtcdStatement(text []byte) (EtcdStatement, error) {
	var out EtcdStatement
	if err := json.Unmarshal(text, &out); err != nil {
		return EtcdStatement{}, err
	}
	if out.Format > etcdStatementFormat {
		return EtcdStatement{}, fmt.Errorf("a later release has written it: format %d, and this holdfast knows %d", out.Format, etcdStatementFormat)
	}
	if s := out.Record.State; s != "" && !slices.Contains(etcdStates, s) {
		return EtcdStatement{}, fmt.Errorf("state %q of its record is unknown", s)
	}
	return out, nil
}

// PowerOff is the only power state that counts as off.
const PowerOff = "Off"

// EtcdProofs holds the facts about the peer from outside it.
type EtcdProofs struct {
	// Heard is the boot of this host in which the peer last reported that it had
	// not gone on alone.
	Heard string `json:"heard,omitempty"`
	// Power is the present answer of the peer's BMC.
	Power  Fact[string]       `json:"power"`
	Fenced Fact[EtcdFenced]   `json:"fenced"`
	Human  Fact[Confirmation] `json:"human"`
	// Retired is known while there is no peer: the last peer was retired for good, or
	// there was none yet, and the next one is not in Corosync's cluster yet.
	Retired Fact[EtcdRetired] `json:"retired,omitzero"`
}

// EtcdRetired says that a host was taken out of the cluster of the two for good. Unlike
// the other proofs it stays valid over a boot: the host lacks Corosync's new key.
type EtcdRetired struct {
	Peer string    `json:"peer"`
	Plan string    `json:"plan"` // the plan that retired it, or that brings it
	At   time.Time `json:"at"`
	// Never is true if this host never had a peer: the site grows, and Peer is the host that
	// it will have.
	Never bool `json:"never,omitempty"`
}

// EtcdThird holds what a host knows about a third member that a plan brings.
type EtcdThird struct {
	// Coming is true if a plan brings a third host, or if that could not be found out. A
	// learner that joins then is not taken for the peer's.
	Coming bool `json:"coming,omitempty"`
	// Word is the plan's word on this host's disk: known and empty without one.
	Word Fact[EtcdThirdWord] `json:"word"`
	// Behind is the number of entries of this host's log that the third member lacks.
	Behind Fact[uint64] `json:"behind"`
}

// EtcdThirdWord is a plan's word to the etcd keeper of each of two hosts: another host joins,
// and once the word names its member the two let it vote. Or that member leaves, and the two have no
// record yet.
type EtcdThirdWord struct {
	Plan string `json:"plan"`
	Host string `json:"host"`
	// Address is that of the host, at which its etcd answers clients.
	Address netip.Addr `json:"address,omitzero"`
	// Member is its learner; zero while it only joins.
	Member MemberID `json:"member,omitempty"`
	// Leaves is true if Member is a voter that leaves later: until then nobody goes on alone.
	Leaves bool `json:"leaves,omitempty"`
}

// EtcdFenced is a fence that was carried out and read back.
type EtcdFenced struct {
	Target string `json:"target"`
	State  string `json:"state"` // as the BMC spelled it
	Boot   string `json:"boot"`  // of the host that fenced
	// At is the time at which the state was read back, since that boot.
	At time.Duration `json:"at"`
}

// Confirmation is an administrator's statement that the peer is off.
type Confirmation struct {
	Who  string        `json:"who"`
	Why  string        `json:"why"`
	Boot string        `json:"boot"`
	At   time.Duration `json:"at"`
	// Force is true if the administrator accepts that newer writes of the peer are
	// lost.
	Force bool `json:"force,omitempty"`
}

// EtcdAction is one step of the two-node protocol.
type EtcdAction string

// The actions.
const (
	EtcdIdle         EtcdAction = "idle"           // all is as it should be
	EtcdWait         EtcdAction = "wait"           // something will happen without an action of this host
	EtcdAskHuman     EtcdAction = "ask-human"      // nothing will happen without an administrator, or without the peer
	EtcdAskFence     EtcdAction = "ask-fence"      // have Pacemaker fence the peer
	EtcdGrantQuorum  EtcdAction = "grant-quorum"   // end the inert state without having seen the peer
	EtcdWriteRecord  EtcdAction = "write-record"   // the verdict holds the record
	EtcdStart        EtcdAction = "start"          // with the present data, or as the listed learner
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

// EtcdVerdict is the next step of one host, with its reason.
type EtcdVerdict struct {
	Action EtcdAction `json:"action"`
	// Rule is the id of the rule that decided.
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Next is a command for the administrator, if one is needed.
	Next string `json:"next,omitempty"`
	// Evidence lists the facts behind the rule, one sentence each.
	Evidence []string `json:"evidence,omitempty"`
	// Record must be durable before the step.
	Record *EtcdRecord `json:"record,omitempty"`
	Member MemberID    `json:"member,omitempty"`
	Seq    uint64      `json:"seq,omitempty"`
	// Anew is true if the peer has to be fenced although it was a moment ago.
	Anew bool `json:"anew,omitempty"`
}
