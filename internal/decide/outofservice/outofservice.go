// Package outofservice decides about the taint that tells Kubernetes that a
// node is surely off, so that its pods and volumes may move at once instead of
// after the patience for a node that may only be out of reach.
//
// The taint is a promise: whoever sets it vouches that nothing runs on the node
// any more. So it is set on the same proofs as a take-over of etcd, and only
// what this package set is ever removed.
package outofservice

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The taint, as Kubernetes knows it.
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
const (
	Key    = "node.kubernetes.io/out-of-service"
	Value  = "nodeshutdown"
	Effect = "NoExecute"
)

// Annotation marks a node whose taint is ours: by whom, and since which fence.
const Annotation = "holdfast.io/out-of-service-by"

// Taint is a taint of a node, in the API's own form.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// Node is what is looked at of a node.
type Node struct {
	Name            string
	ResourceVersion string
	Taints          []Taint
	// Annotations is nil where the object has none at all.
	Annotations map[string]string
	// Ready and ReadySince are the condition and its last change; Heartbeat is
	// when the node's kubelet reported it last.
	Ready                 bool
	ReadySince, Heartbeat time.Time
}

// Input is what is known about one node when a host decides.
type Input struct {
	// Host is who decides.
	Host string
	Now  time.Time
	// Boot and Uptime are those of the host that decides.
	Boot   string
	Uptime time.Duration
	Node   Node
	// Pacemaker says whether the node is in the membership, and since when.
	Contact state.Fact[bool]
	Joined  time.Duration
	Fenced  state.Fact[state.EtcdFenced]
	// Human is a person's word that the node is off.
	Human state.Fact[state.Confirmation]
}

// Action is what to do about the taint.
type Action string

// The actions.
const (
	Leave  Action = "leave"
	Add    Action = "add" // the taint where it is missing, and the mark of this fence
	Remove Action = "remove"
)

// Verdict is the answer.
type Verdict struct {
	Action Action
	Reason string
	// Mark is the annotation's value, where the taint is added.
	Mark string
	// Unready says that the API still holds the node for ready. Until it does
	// not, only half of what waits for the taint begins: pods that hold volumes
	// are deleted on nodes that are both tainted and not ready, and the API
	// would take most of a minute to notice by itself.
	Unready bool
}

// Decide returns what to do about one node.
func Decide(in Input) Verdict {
	mark, ours := parseMark(in.Node.Annotations[Annotation])
	tainted := in.Node.index() >= 0
	if mark.at.After(in.Now) && state.Is(in.Contact, true) {
		mark.at = time.Time{} // the clock was wrong when it was set
	}
	at, why := proof(in)
	newer := why != "" && at.After(mark.at.Add(sameFence))
	off := mark.at
	if newer {
		off = at
	}
	switch {
	case ours && back(in, off):
		return Verdict{Action: Remove, Reason: "the node is back: it is Ready again since its fence"}
	case why == "":
		return leave("nothing proves that the node is off")
	case tainted && !ours:
		return leave("somebody else has set the taint")
	case back(in, at):
		return leave("the node is back already")
	case tainted && !newer:
		return Verdict{Action: Leave, Reason: "the taint is there", Unready: in.Node.Ready}
	case ours && !newer:
		return leave("the taint of this fence was removed by somebody else")
	}
	return Verdict{Action: Add, Reason: why, Mark: formatMark(in.Host, at), Unready: in.Node.Ready}
}

func leave(why string) Verdict { return Verdict{Action: Leave, Reason: why} }

// sameFence is how far two readings of the moment of one fence may differ,
// which are computed from two clocks.
const sameFence = 2 * time.Second

// proof returns when the node was proved to be off, and how; no reason where it
// was not. The conditions are those of a take-over: in this boot, after the node
// last joined, and it has not come back into contact.
func proof(in Input) (time.Time, string) {
	if !state.Is(in.Contact, false) || in.Boot == "" {
		return time.Time{}, ""
	}
	if f := in.Fenced; f.Known && f.Value.Target == in.Node.Name && f.Value.State == state.PowerOff && in.valid(f.Value.Boot, f.Value.At) {
		return in.wall(f.Value.At), "fenced: its BMC read back as " + f.Value.State
	}
	if h := in.Human; h.Known && h.Value.Who != "" && in.valid(h.Value.Boot, h.Value.At) {
		return in.wall(h.Value.At), "confirmed to be off by " + h.Value.Who
	}
	return time.Time{}, ""
}

func (in Input) valid(boot string, at time.Duration) bool {
	return boot == in.Boot && at > in.Joined && at <= in.Uptime
}

// wall is the time of day of a moment since the boot.
func (in Input) wall(at time.Duration) time.Time { return in.Now.Add(at - in.Uptime) }

// back reports whether a node runs again after it was off at a time. A node
// whose kubelet was back within the API's patience was Ready all the time as
// far as the API knows: then its report, and its being in contact, tell.
func back(in Input, off time.Time) bool {
	if !in.Node.Ready {
		return false
	}
	return in.Node.ReadySince.After(off) || state.Is(in.Contact, true) && in.Node.Heartbeat.After(off)
}

// index is where the taint stands in the node's list, -1 without it.
func (n Node) index() int {
	for i, t := range n.Taints {
		if t.Key == Key && t.Effect == Effect {
			return i
		}
	}
	return -1
}

// Ours reports whether a node carries the mark, with the taint or without.
func Ours(n Node) bool {
	_, ours := parseMark(n.Annotations[Annotation])
	return ours
}

type mark struct {
	by string
	at time.Time
}

func formatMark(by string, at time.Time) string {
	return fmt.Sprintf("%s %s", by, at.UTC().Format(time.RFC3339))
}

// parseMark reads the annotation. One that holds no time is taken for a very
// old fence: the node is back as soon as it is Ready.
func parseMark(text string) (mark, bool) {
	by, at, _ := strings.Cut(text, " ")
	if by == "" {
		return mark{}, false
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return mark{by: by}, true
	}
	return mark{by, t}, true
}

// Fresh reports whether a fence of this boot lacks nothing but the end of
// contact, which is noticed a moment later than the fence succeeds: it is worth
// looking again soon. Contact that goes on for long is a node that is back.
func Fresh(in Input) bool {
	f := in.Fenced
	return f.Known && f.Value.State == state.PowerOff && f.Value.Boot == in.Boot && in.Boot != "" && f.Value.At > in.Joined &&
		in.Uptime-f.Value.At < freshFor && !state.Is(in.Contact, false)
}

// freshFor is longer than Corosync takes to notice a lost host.
const freshFor = time.Minute
