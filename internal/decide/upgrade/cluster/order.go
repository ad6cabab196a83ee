package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Order returns the hosts in the order in which they go to the new release: control
// planes first, among them whoever neither leads etcd nor holds a VIP, and the
// leader last; then workers.
func Order(hosts []Host) []Host {
	rank := func(h Host) int {
		switch {
		case h.Worker:
			return 3
		case h.Leader:
			return 2
		case h.VIP:
			return 1
		}
		return 0
	}
	return slices.SortedFunc(slices.Values(hosts), func(a, b Host) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// back returns the hosts in the order in which they return: who came last goes first.
func back(hosts []Host) []Host {
	return slices.SortedFunc(slices.Values(hosts), func(a, b Host) int {
		kind := func(h Host) int {
			if h.Worker {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(kind(a), kind(b)), b.Journal.Since.Compare(a.Journal.Since), cmp.Compare(b.Name, a.Name))
	})
}

// batch returns who has the turn next of the hosts that are left: one control plane,
// one worker as a canary, and then as many workers as may be away.
func (s Site) batch(left []Host) []string {
	if len(left) == 0 {
		return nil
	}
	n := 1
	canary := slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Worker && s.arrived(h) })
	if left[0].Worker && canary {
		n = max(1, s.MaxUnavailable)
	}
	var out []string
	for _, h := range left {
		if h.Worker == left[0].Worker && len(out) < n {
			out = append(out, h.Name)
		}
	}
	return out
}

// goal is the release to which hosts are on their way.
func (s Site) goal() string {
	if s.Record.Returning {
		return s.Record.From
	}
	return s.Record.To
}

// arrived reports whether a host is where it shall be, at rest.
func (s Site) arrived(h Host) bool {
	return h.Journal.Step.AtRest() && state.Is(h.Running, s.goal())
}

// left returns the hosts that have not arrived, in their order.
func (s Site) left() []Host {
	order := Order(s.Hosts)
	if s.Record.Returning {
		order = back(s.Hosts)
	}
	return slices.DeleteFunc(order, s.arrived)
}

// atWork returns the hosts that are on their way.
func (s Site) atWork() []Host {
	return slices.DeleteFunc(slices.Clone(s.Hosts), func(h Host) bool { return h.Journal.Step.AtRest() })
}

// away names hosts that are not known to be present and well. A host that has its turn
// or is at work is expected not to be well.
func (s Site) away(but []string) string {
	var out []string
	for _, h := range s.Hosts {
		if !h.well() && !slices.Contains(but, h.Name) {
			out = append(out, h.Name)
		}
	}
	return strings.Join(out, " and ")
}

// well reports whether a host is known to be present and well.
func (h Host) well() bool {
	return state.Is(h.Present, true) && state.Is(h.Well, true) && h.Running.Known
}

func names(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}

// failed returns a host that went back by itself and shall not try again without a
// person.
func (s Site) failed() (Host, bool) {
	for _, h := range s.left() {
		j := h.Journal
		if j.Step == parachute.Returned && j.Upgrade == s.Record.Upgrade && (j.Failed || j.Attempts >= parachute.MaxAttempts) {
			return h, true
		}
	}
	return Host{}, false
}
