package twonode_test

import (
	"slices"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

// The largest differences between the times in reports and those of the
// clients, on a busy machine.
const (
	closeTo   = 2 * time.Second
	noticedIn = 10 * time.Second // a failure, whichever host reports it
	leavesIn  = 25 * time.Second // for which a shutdown waits until pods have moved (ADR 0071)
	overIn    = 15 * time.Second // the end, after both were seen as voters
)

// reportsFit checks that the times in the reports are in order, and agree with
// those of the clients.
func (tr *trial) reportsFit(list []decide.Incident) {
	tr.Helper()
	for n, i := range list {
		for k, f := range i.Failures {
			tr.inOrder(f)
			if n == 0 && k == 0 {
				tr.fitsClients(i, f)
			}
		}
		if !i.End.After(i.Start) {
			tr.Errorf("report %s ends at %s and begins at %s", i.ID, i.End, i.Start)
		}
	}
}

// chains holds the phases whose order is fixed if one host went on; both holds
// those for which neither had to, as after a site was switched off. A fence
// ends with a read of the power, in the same moment in which the survivor reads
// the other proof for its decision.
var (
	chains = [][]decide.Phase{
		{decide.PhaseLost, decide.PhaseDecided, decide.PhaseEtcd, decide.PhaseBack, decide.PhaseVoters},
		{decide.PhaseLost, decide.PhaseFenced, decide.PhaseEtcd, decide.PhaseBack, decide.PhaseVoters},
	}
	both = [][]decide.Phase{
		{decide.PhaseLost, decide.PhaseBack, decide.PhaseVoters},
		{decide.PhaseLost, decide.PhaseEtcd, decide.PhaseVoters},
	}
)

func (tr *trial) inOrder(f decide.Failure) {
	tr.Helper()
	follow := chains
	if f.By == "" || f.Cause == decide.Rebooted || f.Cause == decide.Started {
		follow = both
	}
	for _, phases := range follow {
		var list []decide.Moment
		for _, p := range phases {
			if m := f.Moment(p); !m.At.IsZero() {
				list = append(list, m)
			}
		}
		if !slices.IsSortedFunc(list, func(a, b decide.Moment) int { return a.At.Compare(b.At) }) {
			tr.Errorf("the phases of a report are not in order: %+v", list)
		}
	}
	for _, m := range f.Moments {
		if !m.At.IsZero() && m.After != m.At.Sub(f.At) {
			tr.Errorf("%s is told to be %s after the failure, and is %s after it", m.Phase, m.After, m.At.Sub(f.At))
		}
	}
}

func (tr *trial) fitsClients(i decide.Incident, f decide.Failure) {
	tr.Helper()
	limit := noticedIn
	if f.Cause == decide.Planned {
		limit += leavesIn
	}
	if began := i.Start.Sub(tr.at); began < -closeTo || began > limit {
		tr.Errorf("report %s begins %s after the fault", i.ID, began)
	}
	etcd, back := f.Moment(decide.PhaseEtcd), backAt(tr.rec, tr.survivor, tr.at)
	if slices.Contains([]decide.Cause{decide.Lost, decide.Cut}, f.Cause) && !etcd.At.IsZero() && !back.IsZero() {
		if d := etcd.At.Sub(back); d.Abs() > closeTo {
			tr.Errorf("report %s: etcd took writes at %s, clients wrote from %s on", i.ID, etcd.At, back)
		}
	}
	if tr.result.Voters != nil {
		since := tr.ended
		if since.IsZero() {
			since = tr.at
		}
		seen := since.Add(time.Duration(float64(*tr.result.Voters) * float64(time.Second)))
		if d := i.End.Sub(seen); d.Abs() > overIn {
			tr.Errorf("report %s is over at %s, two voters were seen at %s", i.ID, i.End, seen)
		}
	}
}
