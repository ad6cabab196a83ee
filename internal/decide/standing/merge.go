package standing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Merge combines the facts of several sources. The most trustworthy source
// comes first: if two tell the same fact, the first one counts. What a host
// says of itself goes before what the API says of it. Of two reports of
// Pacemaker, truer picks one.
func Merge(parts ...Facts) Facts {
	var out Facts
	for _, p := range parts {
		out.Now = later(out.Now, p.Now)
		out.Cluster = cmp.Or(out.Cluster, p.Cluster)
		out.Sources = append(out.Sources, p.Sources...)
		out.ControlPlanes = first(out.ControlPlanes, p.ControlPlanes)
		out.MastersSchedulable = first(out.MastersSchedulable, p.MastersSchedulable)
		out.Nodes, out.Missing = first(out.Nodes, p.Nodes), first(out.Missing, p.Missing)
		out.Retired = first(out.Retired, p.Retired)
		out.Pacemaker = truer(out.Pacemaker, p.Pacemaker)
		out.SetUp, out.Heartbeat = first(out.SetUp, p.SetUp), first(out.Heartbeat, p.Heartbeat)
		out.ManagedVIPs = first(out.ManagedVIPs, p.ManagedVIPs)
		out.Operators, out.OwnOperator = first(out.Operators, p.Operators), first(out.OwnOperator, p.OwnOperator)
		out.Incidents = first(out.Incidents, p.Incidents)
		out.Pools, out.Upgrade, out.BackupProof = first(out.Pools, p.Pools), first(out.Upgrade, p.Upgrade), first(out.BackupProof, p.BackupProof)
		out.Encryption = first(out.Encryption, p.Encryption)
		out.Lock, out.Announced = first(out.Lock, p.Lock), first(out.Announced, p.Announced)
		for _, h := range p.Hosts {
			out.Hosts = withHost(out.Hosts, h)
		}
		for _, v := range p.VIPs {
			out.VIPs = withVIP(out.VIPs, v)
		}
	}
	hold(&out)
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// first returns the first fact that is known. If neither is known, it returns
// the one that says why.
func first[T any](a, b Seen[T]) Seen[T] {
	if a.Known || !b.Known && a.Why != "" {
		return a
	}
	return b
}

// newest returns the newer of two facts that are known, the first where they are of
// one time.
func newest[T any](a, b Seen[T], at func(T) time.Time) Seen[T] {
	if a.Known && b.Known && at(b.Value).After(at(a.Value)) {
		return b
	}
	return first(a, b)
}

// truer returns the better of two reports, normally the newer one. An older
// report with quorum beats a newer one without, unless it is older by more than
// fresh: a host that has just started or is cut off takes its peer for lost.
func truer(a, b Seen[etcdv1.PacemakerClusterStatus]) Seen[etcdv1.PacemakerClusterStatus] {
	if !a.Known || !b.Known {
		return first(a, b)
	}
	older, newer := a, b
	if a.At.After(b.At) {
		older, newer = b, a
	}
	if quorate(older) && !quorate(newer) && newer.At.Sub(older.At) <= fresh {
		return older
	}
	return newer
}

func quorate(s Seen[etcdv1.PacemakerClusterStatus]) bool {
	return pacemakerstatus.Holds(s.Value.Conditions, pacemakerstatus.Quorate)
}

func withHost(list []Host, h Host) []Host {
	i := slices.IndexFunc(list, func(o Host) bool { return o.Name == h.Name })
	if i < 0 {
		return append(list, h)
	}
	o := list[i]
	o.ControlPlane, o.Worker = o.ControlPlane || h.ControlPlane, o.Worker || h.Worker
	if len(o.Addresses) == 0 {
		o.Addresses = h.Addresses
	}
	o.Power, o.Kubelet = first(o.Power, h.Power), first(o.Kubelet, h.Kubelet)
	o.Record, o.Explanation = first(o.Record, h.Record), first(o.Explanation, h.Explanation)
	o.Member = members(o.Member, h.Member)
	o.LastFence = newest(o.LastFence, h.LastFence, func(f Fence) time.Time { return f.At })
	o.Verified = newest(o.Verified, h.Verified, func(v Verification) time.Time { return v.At })
	o.Registered, o.Labels, o.Peers = first(o.Registered, h.Registered), first(o.Labels, h.Labels), first(o.Peers, h.Peers)
	o.Holds, o.Trouble, o.Firewalls = first(o.Holds, h.Holds), first(o.Trouble, h.Trouble), first(o.Firewalls, h.Firewalls)
	o.Deleted = first(o.Deleted, h.Deleted)
	o.Loops, o.Config, o.Release, o.Backup = first(o.Loops, h.Loops), first(o.Config, h.Config), first(o.Release, h.Release), first(o.Backup, h.Backup)
	o.Renewal, o.Plans = first(o.Renewal, h.Renewal), first(o.Plans, h.Plans)
	o.Authorities, o.Keys, o.Space = first(o.Authorities, h.Authorities), first(o.Keys, h.Keys), first(o.Space, h.Space)
	list[i] = o
	return list
}

// members fills the gaps in the first report on a member from the second.
func members(a, b Seen[Member]) Seen[Member] {
	if !a.Known || !b.Known {
		return first(a, b)
	}
	m, o := &a.Value, b.Value
	for _, f := range []struct{ to, from *state.Fact[bool] }{{&m.Running, &o.Running}, {&m.Listed, &o.Listed}, {&m.Healthy, &o.Healthy}} {
		if !f.to.Known {
			*f.to = *f.from
		}
	}
	if !m.Behind.Known {
		m.Behind = o.Behind
	}
	return a
}

func withVIP(list []VIP, v VIP) []VIP {
	i := slices.IndexFunc(list, func(o VIP) bool { return o.Address == v.Address })
	if i < 0 {
		return append(list, v)
	}
	list[i].Claims = union(list[i].Claims, v.Claims)
	list[i].Left = union(list[i].Left, v.Left)
	list[i].Forged = union(list[i].Forged, v.Forged)
	return list
}

func union(a, b []string) []string {
	a = slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// hold finds the holders of each VIP. Only if every host reported is it known
// that nobody holds one.
func hold(f *Facts) {
	for i, v := range f.VIPs {
		var have, mute []string
		for _, h := range f.Hosts {
			switch {
			case h.Holds.Known && slices.Contains(h.Holds.Value, v.Address):
				have = append(have, h.Name)
			case !h.Holds.Known:
				mute = append(mute, h.Name)
			}
		}
		switch {
		case len(have) > 0 || len(mute) == 0 && len(f.Hosts) > 0:
			f.VIPs[i].Holders = Know(have, "the hosts", f.Now)
		case len(f.Hosts) > len(mute):
			f.VIPs[i].Holders = Seen[[]string]{Why: "none of the hosts that reported; no report from: " + strings.Join(mute, ", ")}
		}
	}
}
