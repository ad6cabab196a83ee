package pacemakerstatus

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// subdomain matches the names that the API accepts for a node.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxName is the API's limit on a node's name, in bytes.
const maxName = 253

func isNodeName(name string) bool { return len(name) <= maxName && subdomain.MatchString(name) }

// maxAddresses is the API's limit on a node's addresses.
const maxAddresses = 8

// addresses returns a node's addresses in the form that the API wants: global,
// canonical, each once, first the one that etcd's peers use.
func (v view) addresses(name string) []etcdv1.PacemakerNodeAddress {
	var texts []string
	for _, h := range v.Corosync.Value.Nodes {
		if h.Name == name {
			texts = append(texts, h.Addresses...)
		}
	}
	texts = append(texts, v.Addresses[name]...)
	var out []etcdv1.PacemakerNodeAddress
	for _, text := range texts {
		addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			continue // a host name; only that host could resolve it
		}
		addr = addr.Unmap().WithZone("")
		a := etcdv1.PacemakerNodeAddress{Type: etcdv1.PacemakerNodeInternalIP, Address: addr.String()}
		if addr.IsGlobalUnicast() && !slices.Contains(out, a) && len(out) < maxAddresses {
			out = append(out, a)
		}
	}
	return out
}

// nodeConditions returns the API's conditions of the node itself.
func (v view) nodeConditions(name string) []metav1.Condition {
	n := v.node(name)
	if !v.Cluster.Known {
		var out []metav1.Condition
		for _, m := range []meaning{nodeOnline, nodeService, nodeActive, nodeReady, nodeClean, nodeMember} {
			out = append(out, m.unknown(v.Trouble))
		}
		return out
	}
	if !n.Known {
		const words = "it is in corosync.conf, but unknown to Pacemaker"
		return []metav1.Condition{
			nodeOnline.is(false, words), nodeService.unknown(words), nodeActive.unknown(words), nodeReady.unknown(words),
			nodeClean.is(false, words), nodeMember.is(false, words),
		}
	}
	return []metav1.Condition{
		v.online(n.Value), inService(n.Value), active(n.Value), ready(n.Value), v.clean(n.Value), v.member(n.Value),
	}
}

// online follows whichever of Pacemaker and Corosync notices a loss first.
func (v view) online(n crmmon.Node) metav1.Condition {
	switch {
	case !n.Online && n.Shutdown:
		return nodeOnline.is(false, "it was shut down cleanly")
	case !n.Online:
		return nodeOnline.is(false, "Pacemaker is not running there, or cannot be reached")
	case n.Kind == member && !v.there(n.Name):
		return nodeOnline.is(false, "Corosync has just lost it")
	}
	return nodeOnline.is(true)
}

func inService(n crmmon.Node) metav1.Condition {
	if n.Maintenance {
		return nodeService.is(false, "it is in maintenance: Pacemaker does not touch it"+hint("pcs node unmaintenance "+n.Name))
	}
	return nodeService.is(true)
}

func active(n crmmon.Node) metav1.Condition {
	switch {
	case n.Pending: // Pacemaker then runs nothing there and calls that standby
		return nodeActive.unknown("it is joining or leaving")
	case n.StandbyOnFail:
		return nodeActive.is(false, "it was put into standby by a failure (pcs resource cleanup, then pcs node unstandby "+n.Name+")")
	case n.Standby:
		return nodeActive.is(false, "it is in standby: nothing runs there"+hint("pcs node unstandby "+n.Name))
	}
	return nodeActive.is(true)
}

func ready(n crmmon.Node) metav1.Condition {
	if n.Pending {
		return nodeReady.is(false, "it is joining or leaving")
	}
	return nodeReady.is(true)
}

// clean names what an unclean node waits for: until the node is fenced, nothing is
// recovered.
func (v view) clean(n crmmon.Node) metav1.Condition {
	if !n.Unclean {
		return nodeClean.is(true)
	}
	words := "it must be fenced; until it is proven off, nothing is recovered"
	if !v.cluster.Options.FencingEnabled {
		words = "its state is unknown, and stonith-enabled is false: it is not fenced"
	}
	if f, ok := v.newest(n.Name); ok && f.State == crmmon.FenceFailed {
		words = "its fence failed; until it is proven off, nothing is recovered: " + fenceWords(f) +
			" (docs/runbook/fencing.md; if it is surely off: holdfast quorum confirm)"
	}
	return nodeClean.is(false, words)
}

// member is the type of a node that takes part in quorum.
const member = "member"

func (v view) member(n crmmon.Node) metav1.Condition {
	if n.Kind != member {
		return nodeMember.is(false, fmt.Sprintf("it is a %.20s node", n.Kind))
	}
	c := v.Corosync
	if c.Known && !slices.ContainsFunc(c.Value.Nodes, func(h corosync.Node) bool { return h.Name == n.Name }) {
		return nodeMember.is(false, "it is known to Pacemaker, but not in corosync.conf")
	}
	return nodeMember.is(true)
}

// byPerson is the name under which Pacemaker records a fence that an administrator
// confirmed by hand.
const byPerson = "a human"

// givingWay is how long after an administrator's confirmation a fence that was
// under way may still end because of it: 3 s in the lab, a few attempts on a slow
// BMC.
const givingWay = 30 * time.Second

// gaveWay reports whether a fence failed only because an administrator had
// confirmed that the node is off.
func (v view) gaveWay(f crmmon.Fence) bool {
	return f.State == crmmon.FenceFailed && slices.ContainsFunc(v.cluster.Fences, func(word crmmon.Fence) bool {
		since := f.Done.Sub(word.Done)
		return word.Target == f.Target && word.By == byPerson && word.State == crmmon.FenceSucceeded && since >= 0 && since <= givingWay
	})
}

// newest returns the last fence of a node. A pending fence is the newest; one that
// gave way to a confirmation does not count.
func (v view) newest(name string) (crmmon.Fence, bool) {
	var last crmmon.Fence
	found := false
	for _, f := range v.cluster.Fences {
		if f.Target != name || v.gaveWay(f) {
			continue
		}
		later := f.State == crmmon.FencePending || last.State != crmmon.FencePending && f.Done.After(last.Done)
		if !found || later {
			last, found = f, true
		}
	}
	return last, found
}

func fenceWords(f crmmon.Fence) string {
	words := f.Action
	if f.By != "" {
		words += " by " + f.By
	}
	if !f.Done.IsZero() {
		words += " at " + f.Done.UTC().Format(time.RFC3339)
	}
	if f.Words != "" {
		words += ": " + shorten(f.Words, maxMessage/4)
	}
	return words
}

// lastFence returns our own condition of whether the last fence of a node
// succeeded.
func (v view) lastFence(name string) metav1.Condition {
	m := meaning{LastFenceSucceeded, ReasonFenceSucceeded, ReasonFenceFailed}
	f, ok := v.newest(name)
	switch {
	case !v.Cluster.Known:
		return m.unknown(v.Trouble)
	case !ok:
		return condition(LastFenceSucceeded, metav1.ConditionTrue, ReasonNeverFenced)
	case f.State == crmmon.FencePending:
		return condition(LastFenceSucceeded, metav1.ConditionFalse, ReasonFencePending, fenceWords(f)+" is under way")
	}
	return m.is(f.State == crmmon.FenceSucceeded, fenceWords(f))
}

// redundant returns the condition Redundant. It is true while either host may be
// lost without a loss of writes.
func (v view) redundant() metav1.Condition {
	const kind = Redundant
	lost := func(words string) metav1.Condition {
		return condition(kind, metav1.ConditionFalse, ReasonPeerLost, words+": one more failure stops the cluster")
	}
	resyncing := func(words string) metav1.Condition {
		return condition(kind, metav1.ConditionFalse, ReasonResyncing, words+": one more failure stops the cluster")
	}
	if !v.Etcd.Known {
		return v.silent("the etcd keeper on " + v.Host + " does not answer")
	}
	s := v.Etcd.Value.Snapshot
	members := s.Local.Members
	switch {
	case state.Is(s.Pacemaker.Contact, false):
		return lost(s.Peer + " is absent")
	case !members.Known || !state.Is(s.Local.Running, true):
		return v.silent("etcd on " + v.Host + " does not report its members")
	case len(members.Value) < expected:
		return lost("etcd on " + v.Host + " is the only member")
	}
	if odd := etcdmember.Strangers(s); len(odd) > 0 {
		return condition(kind, metav1.ConditionFalse, ReasonStranger, "etcd lists what belongs to neither host: "+Strangers(odd)+": one more failure stops the cluster"+hint(etcdmember.RemoveCommand(odd[0].ID)))
	}
	third, brought := etcdmember.Third(s)
	for _, m := range members.Value {
		if brought && m.ID == third.ID {
			continue // while it learns, the two are a pair as ever
		}
		if m.Learner {
			return resyncing(learns(nameOf(m, s.Peer)))
		}
		if m.Name == "" {
			return lost(nameOf(m, s.Peer) + " is a member that has not started yet")
		}
	}
	if who := leaver(s); who != "" {
		return lost(who + " is leaving")
	}
	if !s.Record.Known { // etcd runs on, but once the peer is lost it would wait for an administrator
		return lost("the record of " + v.Host + " cannot be read, so it cannot go on alone (sudo holdfast explain etcd)")
	}
	three := brought && !third.Learner && s.Record.Value.State == state.EtcdMajority
	if s.Record.Value.State != state.EtcdPair && !three {
		return resyncing(fmt.Sprintf("both are voters, but the record of %s says %s, not %s yet", v.Host, s.Record.Value.State, state.EtcdPair))
	}
	if state.Is(s.Local.Leader, 0) {
		return lost("etcd has no leader")
	}
	return condition(kind, metav1.ConditionTrue, ReasonRedundant)
}

// Strangers describes members of etcd that belong to no host.
func Strangers(list []state.EtcdMember) string {
	var names []string
	for _, m := range list {
		what := "voter"
		if m.Learner {
			what = "learner"
		}
		name := "never started"
		if m.Name != "" {
			name = m.Name
		}
		names = append(names, fmt.Sprintf("%s %s (%.40s)", what, m.ID, name))
	}
	return strings.Join(names, ", ")
}

// leaver returns the host that leaves in order, empty for none. While its member is
// still listed, it must not be taken for one that catches up.
func leaver(s state.EtcdSnapshot) string {
	switch {
	case s.Record.Known && s.Record.Value.State == state.EtcdDeparting:
		return s.Host
	case s.Statement.Known && s.Statement.Value.Record.State == state.EtcdDeparting:
		return s.Peer
	}
	return ""
}

// Patience is how long etcd and its keeper may be silent on a busy host before
// redundancy counts as unknown.
const Patience = 10 * time.Second

// silent returns the condition Redundant where no source reports on it: the earlier
// condition where there is one (Before), otherwise Unknown.
func (v view) silent(why string) metav1.Condition {
	if v.Before.Type == Redundant {
		return v.Before
	}
	return condition(Redundant, metav1.ConditionUnknown, ReasonNotReported, why)
}

// Patient returns the input with Before set to the condition Redundant of an
// earlier status, where that may still hold: the silence is shorter than Patience,
// the condition was known, and the peer was not lost since.
func (in Input) Patient(before etcdv1.PacemakerClusterStatus, silent time.Duration) Input {
	in.Before = metav1.Condition{}
	was := Find(before.Conditions, Redundant)
	if silent < Patience && was.Status != "" && was.Status != metav1.ConditionUnknown && (!in.gone() || was.Reason == ReasonPeerLost) {
		in.Before = was
	}
	return in
}

// gone reports whether a host of corosync.conf is missing in Corosync's membership.
func (in Input) gone() bool {
	return slices.ContainsFunc(in.Corosync.Value.Nodes, func(h corosync.Node) bool { return !in.there(h.Name) })
}

func nameOf(m state.EtcdMember, otherwise string) string {
	if m.Name != "" {
		return m.Name
	}
	return otherwise
}
