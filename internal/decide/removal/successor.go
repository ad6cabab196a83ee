package removal

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// Place says how far the replacement of a worker is.
type Place string

// The places, in their order.
const (
	// Held: the old host is in the cluster, or a part of it is left.
	Held Place = "held"
	// Free: nothing of the old host is left, and the new one is not Ready yet.
	Free Place = "free"
	// Given: the new host is Ready.
	Given Place = "given"
)

// young is the age up to which a Node is that of the host which has just taken the place of another
// one of its name. The same command, typed again after it was cut off, must not take that host out.
// A join file is valid for as long, if nobody wants it otherwise.
const young = 24 * time.Hour

// Successor says how far the replacement of a worker is. next is the name of the new host, node its
// Node, nil if there is none.
func Successor(f Facts, next string, node *corev1.Node) Place {
	if next == f.Name {
		if f.joins() {
			return Free
		}
		if !f.succeeded() {
			node = nil
		}
		if node == nil && Next(f).Action != Done {
			return Held
		}
	} else if Next(f).Action != Done {
		return Held
	}
	if node != nil && ready(node) {
		return Given
	}
	return Free
}

// succeeded reports whether the Node of the name is that of a later host than the one that was taken
// out last.
func (f Facts) succeeded() bool {
	h, listed := f.Retired.Value.Of(f.Name)
	if !listed || f.Node == nil || h.UID == string(f.Node.UID) || f.diedToo(h) {
		return false
	}
	made := f.Node.CreationTimestamp.Time
	return !made.Before(h.When.Truncate(time.Second)) && f.Now.Sub(made) < young
}

// diedToo reports whether a person names the machine of the Node, and not the one of the entry: the host
// that took the place of the lost control plane is lost itself. The command that is typed again has the
// serial number of the first one, which may be the same machine with another disk. So the board must be
// known to be another.
func (f Facts) diedToo(h retired.Host) bool {
	board := f.Node.Status.NodeInfo.SystemUUID
	return h.System != "" && board != "" && !strings.EqualFold(h.System, board) && f.Gone(f.Typed)
}

// ofSuccessor reports whether a token is that of the machine which gets the name: it was made after
// the host was taken out.
func (f Facts) ofSuccessor(t Token) bool {
	h, listed := f.Retired.Value.Of(f.Name)
	return f.Keeps && listed && !t.Made.Before(h.When.Truncate(time.Second))
}

// joins reports whether the new machine is on its way to a Node and nothing of the old one is left.
// Its entry is closed before it has a Node; one that was closed long ago is that of another life of
// the host.
func (f Facts) joins() bool {
	h, _ := f.Retired.Value.Of(f.Name)
	return f.Node == nil && f.left().none() && slices.ContainsFunc(f.Tokens, f.ofSuccessor) && (h.Open() || f.Now.Sub(h.Again) < young)
}

// OldAddresses returns the addresses at which the old machine may still answer; none once the new
// machine joins, which may have the same ones. Without a Node the entry knows them. An address that
// another node has by now says nothing about the old machine.
func OldAddresses(f Facts) []string {
	if f.joins() || f.succeeded() {
		return nil
	}
	out := Addresses(f.Node)
	if h, open := f.entry(); f.Node == nil && open {
		out = slices.Clone(h.Addresses)
	}
	return slices.DeleteFunc(out, func(address string) bool {
		return slices.ContainsFunc(f.Others, func(n corev1.Node) bool { return slices.Contains(Addresses(&n), address) })
	})
}

// LostVolumes returns the names of the volumes whose data are lost with the host, sorted.
func (f Facts) LostVolumes() []string {
	if f.Node == nil {
		return nil
	}
	var out []string
	for i := range f.Volumes {
		if OnlyOn(&f.Volumes[i], f.Name, f.Node.Labels[corev1.LabelHostname]) {
			out = append(out, f.Volumes[i].Name)
		}
	}
	slices.Sort(out)
	return out
}
