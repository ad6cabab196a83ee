package state

import "strings"

// EtcdSituation is the part of the two-node protocol that a rule belongs to. The
// rule's id begins with it.
type EtcdSituation string

// The situations on which other packages rely.
const (
	EtcdLeaves    EtcdSituation = "leave"     // Pacemaker stops etcd on this host
	EtcdUnclear   EtcdSituation = "unknown"   // a basic fact about this host is unknown
	EtcdPeerGone  EtcdSituation = "gone"      // the peer is absent
	EtcdTakesOver EtcdSituation = "take-over" // this host regains quorum without its peer
	EtcdNoTaking  EtcdSituation = "majority"  // no host takes over, because a third member is let in
)

// EtcdSituationOf returns the situation of a rule.
func EtcdSituationOf(rule string) EtcdSituation {
	situation, _, _ := strings.Cut(rule, ".")
	return EtcdSituation(situation)
}

// Ids of the rules on which other packages rely. The event files of earlier
// releases hold them too.
const (
	EtcdRuleIdle          = "equal.idle"            // both vote, and this host has nothing to do
	EtcdRuleSoleAlone     = "gone.sole-alone"       // this host went on alone, and its etcd works
	EtcdRuleFirst         = "gone.first"            // this host never had a peer
	EtcdRulePeerDeparts   = "equal.peer-departs"    // the peer leaves in order
	EtcdRuleNoSpaceDepart = "equal.no-space-depart" // the disk of this host is full, and it leaves
	EtcdRuleNoSpaceYield  = "equal.no-space-yield"  // the disk of this host is full, and it gives its data directory up
	EtcdRuleLostCopyYield = "equal.lost-copy-yield" // this host lost its data directory and gives it up
	EtcdRuleMajorityStart = "majority.start"        // nobody takes over any more, and etcd starts by itself
	EtcdRuleStallWait     = "stall.wait"            // the peer has to give way, or is fenced
)
