package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/records"
	words "github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// networkPath is the file in which a host's agent writes the state of its
// network.
const networkPath = state.NetworkStatusPath

// Host is a host whose daemons and files can be read: the host that this runs
// on, or one of a lab. It needs no API.
type Host struct {
	// Root is the folder that contains its files.
	Root string
	// Name is empty for the host that this runs on.
	Name string
	// Power is the power state that a lab reports.
	Power standing.Power
	Now   func() time.Time
}

func (h *Host) files() records.Files { return records.Files{Root: h.Root} }

func (h *Host) file(path string) string { return filepath.Join(h.Root, path) }

func (h *Host) name() string {
	if h.Name != "" {
		return h.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

// Silent implements Source.
func (h *Host) Silent(limit time.Duration) standing.Source {
	return standing.Source{Kind: standing.FromHost, Name: h.name(), Failed: fmt.Sprintf("no answer within %s", limit)}
}

// Tell implements Source.
func (h *Host) Tell(ctx context.Context) standing.Facts {
	now := h.Now()
	t := hearing{host: h, name: h.name(), now: now, facts: standing.Facts{Now: now}}
	if h.Power == standing.PowerOff {
		t.self(func(s *standing.Host) { s.Power = standing.Know(h.Power, "the lab", now) })
		t.facts.Sources = []standing.Source{{Kind: standing.FromHost, Name: t.name, Failed: "it is off"}}
		return t.facts
	}
	t.network()
	t.loops()
	t.self(func(s *standing.Host) { s.Power = standing.Know(standing.PowerOn, t.name, now) })
	t.pacemaker()
	t.etcd(ctx)
	t.fences()
	t.incidents()
	t.facts.Sources = []standing.Source{{Kind: standing.FromHost, Name: t.name, Limits: t.limits}}
	t.facts.Hosts = merged(t.facts.Hosts)
	return t.facts
}

// hearing collects the facts from one host.
type hearing struct {
	host   *Host
	name   string
	now    time.Time
	facts  standing.Facts
	limits []string
}

// self changes the facts of the host itself.
func (t *hearing) self(tell func(*standing.Host)) { t.of(t.name, tell) }

func (t *hearing) of(name string, tell func(*standing.Host)) {
	h := standing.Host{Name: name}
	tell(&h)
	t.facts.Hosts = append(t.facts.Hosts, h)
}

func (t *hearing) limit(err error) {
	if errors.Is(err, fs.ErrPermission) {
		err = errors.New("only root may read this: run it with sudo")
	}
	for _, l := range t.limits {
		if l == err.Error() {
			return
		}
	}
	t.limits = append(t.limits, err.Error())
}

// network adds the host's own view of its network, and the hosts that it has
// seen there.
func (t *hearing) network() {
	var s struct {
		At    time.Time         `json:"at"`
		Holds []netip.Addr      `json:"holds"`
		View  state.NetworkView `json:"view"`
	}
	there, err := read(t.host.file(networkPath), &s)
	if err != nil {
		t.limit(err)
	}
	if !there {
		return
	}
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

// silent is how old the file of the loops may be while the agent works.
const silent = 90 * time.Second

// loops are how those of the host's agent are doing. What an agent that is gone
// left says nothing of now.
func (t *hearing) loops() {
	var s state.LoopsStatus
	there, err := read(t.host.file(state.LoopsStatusPath), &s)
	if err != nil {
		t.limit(err)
	}
	if !there || err != nil {
		return
	}
	if age := t.now.Sub(s.At); age > silent {
		t.limit(fmt.Errorf("its agent has said nothing for %s: systemctl status holdfast-agent", age.Round(time.Second)))
		return
	}
	t.self(func(h *standing.Host) { h.Loops = standing.Know(s.Loops, t.name, s.At) })
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

func (t *hearing) vips(v state.NetworkView, list []netip.Addr, kind string) []standing.VIP {
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

// pacemaker adds the host's present report of Pacemaker or, if there is none,
// the last stored one.
func (t *hearing) pacemaker() {
	for _, path := range []string{pacemakerstatus.LivePath, pacemakerstatus.KeptPath} {
		var r pacemakerstatus.Report
		there, err := read(t.host.file(path), &r)
		if err != nil {
			t.limit(err)
		}
		if there && err == nil && !r.At.IsZero() {
			t.facts.Pacemaker = standing.Know(r.Status, t.name, r.At)
			for _, n := range nodesOf(r.Status) {
				t.of(n, func(h *standing.Host) { h.ControlPlane = true })
			}
			return
		}
	}
}

func nodesOf(s etcdv1.PacemakerClusterStatus) []string {
	var out []string
	if s.Nodes != nil {
		for _, n := range *s.Nodes {
			out = append(out, n.NodeName)
		}
	}
	return out
}

// etcd adds the etcd keeper's report on itself and on its peer or, if the
// keeper does not answer, the record on the disk.
func (t *hearing) etcd(ctx context.Context) {
	socket := t.host.file(state.EtcdSocketPath)
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		t.record()
		return
	}
	r, err := explain.Ask(ctx, socket)
	if err != nil {
		t.limit(err)
		t.record()
		return
	}
	if r.Snapshot.Peer == "" && r.Snapshot.Host == "" {
		return
	}
	t.report(r)
}

// record adds the record on the disk.
func (t *hearing) record() {
	r, err := t.host.files().Record()
	if err != nil {
		t.limit(err)
	}
	if err != nil || r.State == state.EtcdNone {
		return
	}
	t.limits = append(t.limits, "the etcd keeper does not answer, so the record is the one on the disk: sudo holdfast explain")
	t.self(func(h *standing.Host) { h.Record = standing.Know(r, t.name, r.Written) })
}

// report adds the etcd keeper's report.
func (t *hearing) report(r state.EtcdReport) {
	s := r.Snapshot
	t.self(func(h *standing.Host) {
		h.ControlPlane = true
		if s.Peer != "" {
			h.Explanation = standing.Know(words.Etcd(words.Input{Source: words.FromAgent, Report: r}), t.name, r.At)
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
func (t *hearing) peer(r state.EtcdReport) {
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
func (t *hearing) fences() {
	records, err := t.host.files().Fences()
	if err != nil {
		t.limit(err)
		return
	}
	for _, r := range records {
		f := standing.Fence{At: r.Time, By: r.By, Off: r.Off, Took: r.Phases.Total, Why: firstLine(r.Detail)}
		t.of(r.Target, func(h *standing.Host) {
			h.ControlPlane = true
			h.LastFence = standing.Know(f, t.name, r.Time)
			if r.Off {
				h.Verified = standing.Know(standing.Verification{At: r.Time, By: r.By, How: "it was fenced", In: r.Phases.Total}, t.name, r.Time)
			}
		})
	}
}

// read reads a JSON file that may be missing.
func read(path string, into any) (there bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s cannot be parsed: %w", path, err)
	}
	return true, nil
}
