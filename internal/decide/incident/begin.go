package incident

import (
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// begins returns the failure that begins with an event, nil if none does.
func (w *walker) begins(e event, h *host) *failing {
	if h.state == "" && e.Kind != Fenced && e.Kind != Confirmed && e.Kind != Recorded {
		return nil // as far as is known, it is still being installed
	}
	switch e.Kind {
	case Members:
		return w.loses(e, h)
	case Wished:
		return w.leaves(e, h)
	case Booted:
		return w.starts(e, h)
	case AsksFence, Fenced, Confirmed:
		return w.fences(e)
	case Decides:
		if w.open == nil && e.Action == state.EtcdAskHuman {
			return &failing{by: e.Host, cause: Trouble}
		}
	case Recorded:
		return w.records(e)
	case Restarted, Holds, API, Tainted, Untainted, Pods, Wrote, Plans, Missed:
	}
	return nil
}

// loses returns a failure if a host no longer sees another one. If the host
// itself counts as lost, this is the other side of the same failure.
func (w *walker) loses(e event, h *host) *failing {
	var gone []string
	for _, name := range h.members {
		if len(e.Members) > 0 && !slices.Contains(e.Members, name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 || w.isLost(gone[0]) {
		return nil
	}
	if w.isLost(e.Host) {
		if w.hosts[e.Host].wish != state.EtcdStopped {
			w.open.last().mutual = true
		}
		return nil
	}
	return &failing{hosts: gone, by: e.Host, cause: Gone}
}

func (w *walker) isLost(name string) bool { return w.open != nil && w.open.lost[name] }

// leaves returns a failure if Pacemaker stops a host's etcd in order.
func (w *walker) leaves(e event, h *host) *failing {
	if e.Wish != state.EtcdStopped || h.wish == state.EtcdStopped || w.isLost(e.Host) {
		return nil
	}
	if w.open != nil && w.joins(e, Planned) {
		return nil
	}
	return &failing{hosts: []string{e.Host}, by: w.other(e.Host), cause: Planned}
}

// starts returns a failure if a host boots although nobody saw it go.
func (w *walker) starts(e event, h *host) *failing {
	if h.boot == "" || h.boot == e.Boot || w.isLost(e.Host) {
		return nil
	}
	if w.open != nil && w.joins(e, Rebooted) {
		return nil
	}
	return &failing{hosts: []string{e.Host}, by: w.other(e.Host), cause: Rebooted}
}

// joins adds a host to a failure of the same kind that has just begun, because
// a whole site is switched off, or on, at once.
func (w *walker) joins(e event, cause Cause) bool {
	f := w.open.last()
	if f.cause != cause || f.back || e.t.Sub(f.at) > together {
		return false
	}
	f.hosts, f.by = append(f.hosts, e.Host), ""
	w.open.lost[e.Host] = true
	return true
}

// fences returns a failure if a host was fenced, or is about to be. If two
// hosts fence each other, the one that is proven off is the lost one.
func (w *walker) fences(e event) *failing {
	if w.isLost(e.Target) || e.Target == "" {
		return nil
	}
	if !w.isLost(e.Host) {
		return &failing{hosts: []string{e.Target}, by: e.Host, cause: Trouble}
	}
	if f := w.open.last(); e.Kind == Fenced && e.OK && len(f.hosts) == 1 && f.by == e.Target {
		delete(w.open.lost, e.Host)
		w.open.lost[e.Target] = true
		f.hosts, f.by = []string{e.Target}, e.Host
	}
	return nil
}

// records returns a failure that only an etcd record shows. If an incident is
// open, it counts only if a data directory was lost and nothing but a wait for
// an administrator was known so far.
func (w *walker) records(e event) *failing {
	f := w.follows(e)
	if f == nil || w.open != nil && (f.cause != CopyLost || w.open.last().cause != Trouble || len(w.open.lost) > 0) {
		return nil
	}
	return f
}

// follows returns the failure that explains an etcd record, nil if none does.
func (w *walker) follows(e event) *failing {
	switch e.State {
	case state.EtcdTakingOver, state.EtcdSole:
		if e.Rule == state.EtcdRuleFirst {
			return nil // the site grows: this host goes on alone because nobody was there yet
		}
		f := &failing{by: e.Host, cause: Gone}
		if e.State == state.EtcdTakingOver && len(w.hosts[e.Host].members) > 1 {
			f.cause = CopyLost // the other host is there and gave up its data directory
		}
		if o := w.other(e.Host); o != "" {
			f.hosts = []string{o}
		}
		return f
	case state.EtcdDeparting:
		f := &failing{hosts: []string{e.Host}, by: w.other(e.Host), cause: Planned}
		switch e.Rule {
		case state.EtcdRuleLostCopyYield, state.EtcdRuleNoSpaceDepart, state.EtcdRuleNoSpaceYield:
			f.cause = CopyLost
		}
		return f
	case state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdPair, state.EtcdWidening, state.EtcdMajority:
	}
	return nil
}

// other returns the other host, empty if it is not known.
func (w *walker) other(name string) string {
	for _, o := range slices.Sorted(maps.Keys(w.hosts)) {
		if o != name {
			return o
		}
	}
	for _, m := range w.hosts[name].members {
		if m != name {
			return m
		}
	}
	return ""
}
