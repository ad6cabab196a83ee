package hostreport

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Standing returns the host's facts about the cluster, for its status. It needs
// the parts agent, etcd, history and incidents. The host runs, since it reports.
func (r Report) Standing() standing.Facts {
	t := telling{Report: r, name: r.Host, facts: standing.Facts{Now: r.At}}
	t.network()
	t.loops()
	t.space()
	t.deleted()
	t.self(func(s *standing.Host) { s.Power = standing.Know(standing.PowerOn, t.name, r.At) })
	t.pacemaker()
	t.etcd()
	t.fences()
	t.incidents()
	t.facts.Sources = []standing.Source{{Kind: standing.FromHost, Name: t.name, Limits: t.limits}}
	t.facts.Hosts = standing.Merge(standing.Facts{Hosts: t.facts.Hosts}).Hosts
	return t.facts
}

// telling turns a report into facts. name is the name of the host's node.
type telling struct {
	Report

	name   string
	facts  standing.Facts
	limits []string
}

// self changes the facts of the host itself.
func (t *telling) self(tell func(*standing.Host)) { t.of(t.name, tell) }

func (t *telling) of(name string, tell func(*standing.Host)) {
	h := standing.Host{Name: name}
	tell(&h)
	t.facts.Hosts = append(t.facts.Hosts, h)
}

// limit adds why a fact is unknown, unless it is known or nothing of its kind is
// there.
func (t *telling) limit(why string, lack state.Lack) {
	if why != "" && lack != state.LackAbsent && !slices.Contains(t.limits, why) {
		t.limits = append(t.limits, why)
	}
}

// network adds the host's own view of its network, and the hosts that it has
// seen there.
func (t *telling) network() {
	t.limit(t.Network.Why, t.Network.Lack)
	if !t.Network.Known {
		return
	}
	s := t.Network.Value
	if s.View.Host.NodeName != "" {
		t.name = s.View.Host.NodeName
	}
	set := s.View.Settings
	t.facts.Cluster = set.Domain
	if set.ControlPlanes > 0 {
		t.facts.ControlPlanes = standing.Know(set.ControlPlanes, t.name, s.At)
	}
	t.facts.ManagedVIPs = standing.Know(set.ManagedVIPs, t.name, s.At)
	t.facts.VIPs = append(t.vips(s.View, set.APIVIPs, "API"), t.vips(s.View, set.IngressVIPs, "ingress")...)
	for _, n := range s.View.Nodes.Value {
		t.facts.Hosts = append(t.facts.Hosts, nodeOf(n, s.View.Stale, t.name, s.At))
	}
	t.self(func(h *standing.Host) {
		h.Holds = standing.Know(s.Holds, t.name, s.At)
		if f := s.View.SiteFirewalls; f.Known {
			h.Firewalls = standing.Know(f.Value, t.name, s.At)
		}
		h.ControlPlane, h.Worker = s.View.Role.ControlPlane(), s.View.Role == state.RoleWorker
		if p := peers.Of(s.View); p != nil {
			h.Peers = standing.Know(*p, t.name, s.At)
		}
	})
	if s.View.Stale {
		t.limits = append(t.limits, "the list of nodes dates from before its last start")
	}
}

// silent is the greatest age of the file of the loops while the agent works.
const silent = 90 * time.Second

// loops adds the states of the loops of the host's agent. A file that an agent left
// which is gone does not count.
func (t *telling) loops() {
	t.limit(t.Loops.Why, t.Loops.Lack)
	if !t.Loops.Known {
		return
	}
	s := t.Loops.Value
	if age := t.At.Sub(s.At); age > silent {
		t.limit(fmt.Sprintf("its agent has said nothing for %s: systemctl status holdfast-agent", age.Round(time.Second)), state.LackOther)
		return
	}
	t.self(func(h *standing.Host) { h.Loops = standing.Know(s.Loops, t.name, s.At) })
}

// space adds what the agent found of the space of etcd. While the alarm NOSPACE is raised this
// alone says it: the API takes no writes then. A file that an agent left which is gone does not
// count; the loops say that it is.
func (t *telling) space() {
	t.limit(t.Space.Why, t.Space.Lack)
	if t.Space.Known && t.At.Sub(t.Space.Value.At) <= etcdspace.Fresh {
		t.self(func(h *standing.Host) {
			h.Space = standing.Know(etcdspace.Host{Name: t.name, Summary: t.Space.Value.Summary}, t.name, t.Space.Value.At)
		})
	}
}

// deleted adds the things that the agent finds missing on the host.
func (t *telling) deleted() {
	t.limit(t.Deleted.Why, t.Deleted.Lack)
	if t.Deleted.Known {
		t.self(func(h *standing.Host) { h.Deleted = standing.Know(t.Deleted.Value.Lost, t.name, t.Deleted.At) })
	}
}

// nodeOf returns a node as a host knows it. If that view is stale, it does not
// tell what the API has.
func nodeOf(n state.Node, stale bool, from string, at time.Time) standing.Host {
	_, worker := n.Labels[state.LabelWorker]
	h := standing.Host{Name: n.Name, ControlPlane: n.ControlPlane(), Worker: worker, Addresses: n.Addresses}
	if stale {
		return h
	}
	h.Registered = standing.Know(!n.Absent, from, at)
	if !n.Absent {
		labels := maps.Clone(n.Labels)
		for _, l := range n.Lost {
			delete(labels, l)
		}
		h.Labels = standing.Know(labels, from, at)
	}
	return h
}

func (t *telling) vips(v state.NetworkView, list []netip.Addr, kind string) []standing.VIP {
	var out []standing.VIP
	for _, a := range list {
		vip := standing.VIP{Address: a, Kind: kind}
		for _, c := range v.Claims {
			switch {
			case c.VIP != a:
			case c.Host != "":
				vip.Left = append(vip.Left, c.Host)
			default:
				vip.Claims = append(vip.Claims, c.By)
			}
		}
		for _, f := range v.Forged {
			if f.VIP == a {
				vip.Forged = append(vip.Forged, f.By+" in the name of "+f.As.String())
			}
		}
		out = append(out, vip)
	}
	return out
}

// pacemaker adds the agent's last report on Pacemaker.
func (t *telling) pacemaker() {
	t.limit(t.Watched.Why, t.Watched.Lack)
	if !t.Watched.Known {
		return
	}
	p := t.Watched.Value
	t.facts.Pacemaker = standing.Know(p.Status, t.name, p.At)
	for _, n := range pacemakerstatus.NodeNames(p.Status) {
		t.of(n, func(h *standing.Host) { h.ControlPlane = true })
	}
}

// etcd adds the etcd keeper's report on itself and on its peer or, if the
// keeper does not answer, the record on the disk.
func (t *telling) etcd() {
	if !t.Keeper.Known {
		t.limit(t.Keeper.Why, t.Keeper.Lack)
		t.record()
		return
	}
	if s := t.Keeper.Value.Snapshot; s.Peer != "" || s.Host != "" {
		t.report(t.Keeper.Value)
	}
}

// record adds the record on the disk.
func (t *telling) record() {
	t.limit(t.Record.Why, t.Record.Lack)
	r := t.Record.Value
	if !t.Record.Known || r.State == state.EtcdNone {
		return
	}
	t.limits = append(t.limits, "the etcd keeper does not answer, so the record is the one on the disk: sudo holdfast explain")
	t.self(func(h *standing.Host) { h.Record = standing.Know(r, t.name, r.Written) })
}

// report adds the etcd keeper's report.
func (t *telling) report(r state.EtcdReport) {
	s := r.Snapshot
	t.self(func(h *standing.Host) {
		h.ControlPlane = true
		if s.Peer != "" {
			h.Explanation = standing.Know(explain.Etcd(explain.Input{Source: explain.FromAgent, Report: r}), t.name, r.At)
		}
		if s.Record.Known {
			h.Record = standing.Know(s.Record.Value, t.name, r.At)
		}
		m := listed(s, s.Record.Value.Member)
		m.Running = s.Local.Running
		if s.Local.Leader.Known {
			m.Healthy = state.Known(s.Local.Leader.Value != 0)
		}
		h.Member = standing.Know(m, t.name, r.At)
	})
	if s.Peer != "" {
		t.peer(r)
	}
}

// peer adds the host's facts about its peer: the peer's statement, its
// membership in etcd, and the answer of its BMC.
func (t *telling) peer(r state.EtcdReport) {
	s := r.Snapshot
	t.of(s.Peer, func(h *standing.Host) {
		h.ControlPlane = true
		if p := s.Proofs.Power; p.Known && p.Value == state.PowerOff {
			h.Power = standing.Know(standing.PowerOff, "its BMC, to "+t.name, r.At)
		} else if p.Known && p.Value == "On" {
			h.Power = standing.Know(standing.PowerOn, "its BMC, to "+t.name, r.At)
		}
		said := s.Statement
		if !said.Known || !state.Is(s.Pacemaker.Contact, true) {
			if s.Local.Members.Known && !hasOther(s) {
				h.Member = standing.Know(standing.Member{Listed: state.Known(false)}, t.name, r.At)
			}
			return
		}
		at := r.At.Add(-said.Value.Age)
		from := s.Peer + ", in its statement to " + t.name
		h.Record = standing.Know(said.Value.Record, from, at)
		m := listed(s, said.Value.Record.Member)
		m.Running = said.Value.Running
		h.Member = standing.Know(m, from, at)
	})
}

// hasOther reports whether etcd lists more members than this host.
func hasOther(s state.EtcdSnapshot) bool { return len(s.Local.Members.Value) > 1 }

// listed returns a member as the local etcd lists it.
func listed(s state.EtcdSnapshot, id state.MemberID) standing.Member {
	m := standing.Member{}
	if !s.Local.Members.Known || id == 0 {
		return m
	}
	m.Listed = state.Known(false)
	for _, l := range s.Local.Members.Value {
		if l.ID == id {
			m.Listed, m.Learner = state.Known(true), l.Learner
		}
	}
	m.Leader = state.Is(s.Local.Leader, id)
	return m
}

// fences adds the fences by this host, and what they prove.
func (t *telling) fences() {
	t.limit(t.Fences.Why, t.Fences.Lack)
	for _, r := range t.Fences.Value {
		why, _, _ := strings.Cut(r.Detail, "\n")
		f := standing.Fence{At: r.Time, By: r.By, Off: r.Off, Took: r.Phases.Total, Why: why}
		t.of(r.Target, func(h *standing.Host) {
			h.ControlPlane = true
			h.LastFence = standing.Know(f, t.name, r.Time)
			if r.Off {
				h.Verified = standing.Know(standing.Verification{At: r.Time, By: r.By, How: "it was fenced", In: r.Phases.Total}, t.name, r.Time)
			}
		})
	}
}

// incidents adds the incidents that the host keeps.
func (t *telling) incidents() {
	t.limit(t.Incidents.Why, t.Incidents.Lack)
	t.facts.Incidents = LastIncidents(t.Incidents.Value, t.name, t.At)
}

// lastShown is the number of recent incidents that are shown.
const lastShown = 3

// LastIncidents returns the newest incidents as a fact, unknown if there are
// none.
func LastIncidents(list []standing.Incident, from string, now time.Time) standing.Seen[[]standing.Incident] {
	if len(list) == 0 {
		return standing.Seen[[]standing.Incident]{}
	}
	return standing.Know(list[:min(lastShown, len(list))], from, now)
}
