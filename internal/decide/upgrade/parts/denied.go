package parts

import (
	"cmp"
	"fmt"
	"slices"
)

// Asked is what a router, and the pod to which it leads, answer for a host of an Ingress: the
// statuses, 0 without an answer.
type Asked struct {
	Router, Host string
	Status, Own  int
}

// denials are the statuses of HTTP that say that there is nothing behind a host: not found, bad
// gateway, unavailable, and the time-out of a gateway.
var denials = []int{404, 502, 503, 504}

func denies(status int) bool { return slices.Contains(denials, status) }

// Denied names a router that denies each host for which it was asked, although the pods behind
// them answer for themselves; empty if there is none. A router that answers for one of them
// leads, and a pod that denies the host itself tells nothing of its router. A router that does
// not answer at all says nothing either: perhaps it is not reached from here.
func Denied(list []Asked) string {
	list = slices.DeleteFunc(slices.Clone(list), func(a Asked) bool { return a.Own == 0 || denies(a.Own) })
	slices.SortFunc(list, func(a, b Asked) int { return cmp.Or(cmp.Compare(a.Router, b.Router), cmp.Compare(a.Host, b.Host)) })
	for len(list) > 0 {
		first := list[0]
		n := slices.IndexFunc(list, func(a Asked) bool { return a.Router != first.Router })
		if n < 0 {
			n = len(list)
		}
		if !slices.ContainsFunc(list[:n], func(a Asked) bool { return !denies(a.Status) }) {
			return fmt.Sprintf("%s answers %d for %s, whose own pod answers %d", first.Router, first.Status, first.Host, first.Own)
		}
		list = list[n:]
	}
	return ""
}
