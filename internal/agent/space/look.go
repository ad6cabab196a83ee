package space

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/backup"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// revision is the newest one at a time since boot.
type revision struct {
	at time.Duration
	is int64
}

// look gathers the facts. What is not known stays so, and closes a gate.
func (a *Agent) look(ctx context.Context, up time.Duration) decide.Facts {
	ctx, stop := context.WithTimeout(ctx, looks)
	defer stop()
	view := a.View()
	f := decide.Facts{Self: view.Host.NodeName, Shape: a.Shape, Uptime: up}
	addresses := controlPlanes(view.Nodes.Value)
	answers := a.Members(ctx, addresses)
	a.members(&f, answers)
	f.Around(f.Self, view.Nodes.Value, a.Now())
	if own, answered := answers[f.Self]; answered {
		f.Etcd = state.Known(backup.EtcdOfMember(own.Leader != 0 && !own.Learner, own.Members))
		f.Own, f.NoSpace = state.Known(member(f.Self, own)), alarmed(own)
		a.past(ctx, &f, own, addresses[f.Self])
	}
	if a.Shape == decide.Two {
		a.pair(ctx, &f)
	}
	if works, err := a.BacksUp(ctx); err == nil {
		f.BacksUp = state.Known(works)
	}
	if said, err := a.Backup(); err == nil {
		f.Sends = said.PastEtcd()
	}
	file := a.Wanted()
	a.wish = a.hear()
	f.Asked = a.wish != "" || file.Known && file.Value >= 0 && file.Value < decide.WishLasts
	return f
}

// controlPlanes returns the addresses of the control planes, by their names.
func controlPlanes(nodes []state.Node) map[string]string {
	out := map[string]string{}
	for _, n := range nodes {
		if n.ControlPlane() && len(n.Addresses) > 0 {
			out[n.Name] = n.Addresses[0].String()
		}
	}
	return out
}

// members adds what the voters say that this host's member lists.
func (a *Agent) members(f *decide.Facts, answers map[string]etcd.MemberSpace) {
	own, answered := answers[f.Self]
	if !answered {
		return
	}
	byID := map[state.MemberID]string{}
	for name, s := range answers {
		byID[s.Member] = name
	}
	var list []decide.Member
	missing := map[state.MemberID]time.Duration{}
	alarms, corrupt := map[state.MemberID]bool{}, map[state.MemberID]bool{}
	for _, m := range own.Members {
		if m.Learner {
			continue
		}
		f.Voters++
		if name, is := byID[m.ID]; is {
			s := answers[name]
			list = append(list, member(name, s))
			raise(alarms, s.NoSpace)
			raise(corrupt, s.Corrupt)
		} else {
			missing[m.ID] = f.Uptime
		}
	}
	f.Silent = a.silent(f.Uptime, missing)
	for i := range list {
		m := &list[i]
		m.NoSpace, m.Corrupt = alarms[m.ID], corrupt[m.ID]
		delete(alarms, m.ID)
		delete(corrupt, m.ID)
	}
	f.Members, f.Gone, f.GoneCorrupt = state.Known(list), slices.Sorted(maps.Keys(alarms)), len(corrupt) > 0
}

// silent takes in which voters do not answer now, and returns for how long all of them have not: a
// member that is defragmented has just begun.
func (a *Agent) silent(up time.Duration, missing map[state.MemberID]time.Duration) time.Duration {
	var last time.Duration
	for id, since := range missing {
		if before, known := a.missing[id]; known {
			since, missing[id] = before, before
		}
		last = max(last, since)
	}
	if a.missing = missing; len(missing) == 0 {
		return 0
	}
	return up - last
}

func raise(alarms map[state.MemberID]bool, ids []state.MemberID) {
	for _, id := range ids {
		alarms[id] = true
	}
}

// alarmed returns the names of the members that raised the alarm, as one of them knows it.
func alarmed(own etcd.MemberSpace) []string {
	var out []string
	listed := 0
	for _, m := range own.Members {
		if slices.Contains(own.NoSpace, m.ID) {
			out = append(out, m.Name)
			listed++
		}
	}
	if len(own.NoSpace) > listed {
		out = append(out, decide.Removed)
	}
	return out
}

func member(name string, s etcd.MemberSpace) decide.Member {
	return decide.Member{
		Name: name, ID: s.Member, Leader: s.Leader, Size: s.Size, InUse: s.InUse, Quota: s.Quota,
		Index: s.Index, Version: s.Version,
	}
}

// past adds the revision of some time ago, and whether it can still be read. Only an alarm needs
// it: the question is asked for one alone.
func (a *Agent) past(ctx context.Context, f *decide.Facts, own etcd.MemberSpace, address string) {
	f.Newest = own.Revision
	a.seen = append(a.seen, revision{f.Uptime, own.Revision})
	old := slices.IndexFunc(a.seen, func(r revision) bool { return f.Uptime-r.at < decide.CompactBehind }) - 1
	if old < 0 {
		return
	}
	a.seen = a.seen[old:]
	f.Past = a.seen[0].is
	if len(own.NoSpace) == 0 {
		return
	}
	if client, err := a.Own(address); err == nil {
		gone, err := client.Compacted(ctx, f.Past-1)
		f.PastThere = err == nil && !gone
	}
}

// pair adds what the etcd keeper says.
func (a *Agent) pair(ctx context.Context, f *decide.Facts) {
	r, err := a.Keeper(ctx)
	if err != nil {
		f.Etcd = state.Fact[backup.Etcd]{}
		return
	}
	s := r.Snapshot
	f.Etcd = backup.EtcdOfPair(r)
	f.Pair = state.Known(decide.Pair{Own: s.Record.Value.State, Together: s.Uptime - max(s.Pacemaker.Joined, s.Pacemaker.Together)})
	if s.Statement.Known {
		f.Pair.Value.Peer = s.Statement.Value.Record.State
	}
}
