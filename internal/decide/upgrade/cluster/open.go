package cluster

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Open returns the record with which an upgrade is taken up whose own record is gone: all hosts run its
// release at rest, and the way back of one is open. It is the zero value if there is none. Etcd that was
// restored from before the commit is such a site. Nothing else would ever close the way back, and the
// hosts would stay at the former functional level. The soak begins anew. It is another upgrade by its
// name, so that no wish for a commit of then counts for it.
//
// A journal without an upgrade's id leads nowhere: a host whose journal was torn, perhaps months after the
// commit, made it from its releases. Neither does the way on which a host that was installed with the new
// release went to the old one: its journal says that the site went back, or that of another host does.
func (s Site) Open() Record {
	if s.Record.Started || s.Running == "" {
		return Record{}
	}
	var of parachute.Journal
	for _, h := range Order(s.Hosts) {
		j := h.Journal
		if !j.Step.AtRest() || !state.Is(h.Running, s.Running) {
			return Record{}
		}
		if of.From == "" && j.Upgrade != "" && !j.Back && j.From != s.Running && h.open(j.From, s.Running) {
			of = j
		}
	}
	if of.From == "" || slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.returned(s.Running, of.From) }) {
		return Record{}
	}
	r := Record{Upgrade: s.Wish.Upgrade, From: of.From, To: of.To, Planes: s.counted(), Started: true}
	for _, h := range s.Hosts { // a way back that one host has closed stays closed
		r.NoWayBack = r.NoWayBack || h.closed(of.From, of.To)
	}
	return r
}

// open reports whether a host came from one release to another, and its way back is open.
func (h Host) open(from, to string) bool {
	j := h.Journal
	return j.Step == parachute.Accepted && !j.Closed && from != "" && j.From == from && j.To == to
}

// closed reports whether a host has closed its way back from one release to another, in whichever upgrade.
func (h Host) closed(from, to string) bool {
	return h.Journal.Closed && h.Journal.From == from && h.Journal.To == to
}

// returned reports whether a host went back with its site to one release from another: it returned, or
// went there as to any other.
func (h Host) returned(to, from string) bool {
	j := h.Journal
	if j.Back {
		return j.Step == parachute.Accepted && j.From == from && j.To == to
	}
	return j.Step == parachute.Returned && j.From == to && j.To == from
}
