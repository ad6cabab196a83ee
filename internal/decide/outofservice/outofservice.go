// Package outofservice decides about the taint that tells Kubernetes that a node
// is surely off, so that its pods and volumes may move at once. Without it
// Kubernetes waits, because the node may only be out of reach.
//
// The taint is a promise: whoever sets it vouches that nothing runs on the node
// any more. So it needs the same proofs as a take-over of etcd, and this package
// removes only what it set itself.
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

// Annotation marks a node whose taint is ours: its value names the host that set
// it, and the time of the fence.
const Annotation = "holdfast.io/out-of-service-by"

// Taint is a taint of a node, in the API's own form.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// Node holds the parts of a node that the decision reads.
type Node struct {
	Name            string
	ResourceVersion string
	Taints          []Taint
	// Annotations is nil if the object has none at all.
	Annotations map[string]string
	// Ready and ReadySince are the condition and its last change; Heartbeat is the
	// time of the last report of the node's kubelet.
	Ready                 bool
	ReadySince, Heartbeat time.Time
}

// Input holds what a host knows about one node when it decides.
type Input struct {
	// Host is the host that decides.
	Host string
	Now  time.Time
	// Boot and Uptime are the boot and the uptime of the host that decides.
	Boot   string
	Uptime time.Duration
	Node   Node
	// Contact says whether Pacemaker has the node in the membership, Joined since
	// when.
	Contact state.Fact[bool]
	Joined  time.Duration
	Fenced  state.Fact[state.EtcdFenced]
	// Human is an administrator's confirmation that the node is off.
	Human state.Fact[state.Confirmation]
}

// Action names what to do about the taint.
type Action string

// The actions.
const (
	Leave  Action = "leave"
	Add    Action = "add" // sets the taint if it is missing, and the mark of this fence
	Remove Action = "remove"
)

// Verdict says what to do, and why.
type Verdict struct {
	Action Action
	Reason string
	// Mark is the annotation's value if the taint is added.
	Mark string
	// Unready is true while the API still holds the node for ready. Until that
	// changes only half of the taint's effect begins: pods that hold volumes are
	// deleted only on nodes that are both tainted and not ready, and the API would
	// take most of a minute to notice by itself.
	Unready bool
}

// Decide decides what to do about one node.
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
		return leave("the taint was set by something else")
	case back(in, at):
		return leave("the node is already back")
	case tainted && !newer:
		return Verdict{Action: Leave, Reason: "the taint is set", Unready: in.Node.Ready}
	case ours && !newer:
		return leave("the taint of this fence was removed by something else")
	}
	return Verdict{Action: Add, Reason: why, Mark: formatMark(in.Host, at), Unready: in.Node.Ready}
}

func leave(why string) Verdict { return Verdict{Action: Leave, Reason: why} }

// sameFence is the largest difference between two readings of the moment of one
// fence, which are computed from two clocks.
const sameFence = 2 * time.Second

// proof returns the time at which the node was proved to be off, and the proof;
// the text is empty if there is none. The conditions are those of a take-over:
// the proof is of this boot, later than the node's last join, and the node is
// not in contact.
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

// wall returns the time of day of a moment since the boot.
func (in Input) wall(at time.Duration) time.Time { return in.Now.Add(at - in.Uptime) }

// back reports whether a node runs again after it was off at a time. If its
// kubelet was back within the API's patience, the API saw the node Ready all the
// time. A heartbeat after that time, with the node in contact, then shows that
// it runs.
func back(in Input, off time.Time) bool {
	if !in.Node.Ready {
		return false
	}
	return in.Node.ReadySince.After(off) || state.Is(in.Contact, true) && in.Node.Heartbeat.After(off)
}

// index returns the position of the taint in the node's list, -1 if it is not
// there.
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

// parseMark reads the annotation. Without a valid time it counts as a very old
// fence: the node is back as soon as it is Ready.
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

// Fresh reports whether a fence of this boot lacks only the end of contact,
// which is noticed a moment later than the fence succeeds. Then it is worth
// looking again soon. If contact goes on for long, the node is back.
func Fresh(in Input) bool {
	f := in.Fenced
	return f.Known && f.Value.State == state.PowerOff && f.Value.Boot == in.Boot && in.Boot != "" && f.Value.At > in.Joined &&
		in.Uptime-f.Value.At < freshFor && !state.Is(in.Contact, false)
}

// freshFor is longer than Corosync needs to notice a lost host.
const freshFor = time.Minute
