package hostreport

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ErrDenied reports that only root may read what an explanation needs.
var ErrDenied = errors.New(Sudo)

// Sudo is why a fact is unknown that only root may read.
const Sudo = "only root may read this: run it with sudo"

// Explained returns the input about etcd: the report of the host's etcd keeper
// or, if the keeper does not answer, what its files say. It needs the parts
// etcd, evidence, devices and machine.
func (r Report) Explained() (explain.Input, error) {
	if r.Keeper.Known {
		// Without a peer, Pacemaker never asked the keeper for anything.
		return explain.Input{
			Source: explain.FromAgent, Report: r.Keeper.Value, BMC: r.BMC.Value, Unmanaged: r.Keeper.Value.Snapshot.Peer == "",
			Deleted: r.lost(), Replaced: r.replaced(),
		}, nil
	}
	if slices.Contains([]state.Lack{r.Keeper.Lack, r.Record.Lack, r.Targets.Lack}, state.LackDenied) {
		return explain.Input{}, fmt.Errorf("explain etcd: %w", ErrDenied)
	}
	in := explain.Input{Source: explain.FromFiles}
	s := state.EtcdSnapshot{
		Host: r.Host, Peer: r.Peer(), Now: r.At, Boot: r.Boot.Value.ID, Uptime: r.Boot.Value.Uptime, Record: r.Record.Fact(),
	}
	if s.Peer == "" && r.Record.Lack == state.LackAbsent {
		in.Unmanaged, in.Report.Snapshot = true, s
		return in, nil
	}
	if r.Record.Lack == state.LackAbsent {
		s.Record = state.Known(state.EtcdRecord{State: state.EtcdNone})
	}
	s.Local.Running, s.Data = r.Running.Fact(), r.Data.Fact()
	s.Proofs.Human, s.Proofs.Fenced = r.Confirmation.Fact(), r.Fenced.Fact()
	in.Limits = r.limits()
	in.Report = state.EtcdReport{Wish: state.EtcdNotAsked, Snapshot: s, Verdict: etcdmember.Decide(s), At: s.Now}
	in.BMC, in.Deleted, in.Replaced = r.BMC.Value, r.lost(), r.replaced()
	return in, nil
}

// lost returns the things that somebody deleted on the host, as far as they are known.
func (r Report) lost() []state.Deleted {
	if !r.Deleted.Known {
		return nil
	}
	return r.Deleted.Value.Lost
}

// replaced returns what the host wrote down about another machine in its place, empty if it did
// not, or if that is not known.
func (r Report) replaced() string {
	if !r.Ousted.Known {
		return ""
	}
	return r.Ousted.Value
}

// limits returns why the facts behind an explanation are unknown. The presence
// of the peer stays unknown, because only the etcd keeper can tell it.
func (r Report) limits() []string {
	out := []string{
		r.Keeper.Why, r.Boot.Why, r.Targets.Why, r.Record.Why, r.Running.Why, r.Data.Why, r.Confirmation.Why, r.Fenced.Why,
		"unknown without the etcd keeper: whether the peer is present, and its statement",
	}
	return slices.DeleteFunc(out, func(why string) bool { return why == "" })
}
