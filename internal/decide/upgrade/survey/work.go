package survey

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/window"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pools of a site.
const (
	masters = rollout.Master
	workers = rollout.Worker
)

// work names what else changes hosts: configurations, reboots, updates, drains and
// rotations.
func (v Survey) work(s Seen) state.Fact[[]string] {
	if !s.Pools.Known || !s.Rotations.Known {
		return state.Fact[[]string]{}
	}
	var out []string
	for _, h := range v.hosts {
		if does := rollout.Work(h.node); does != "" {
			out = append(out, h.node.Name+" "+does)
		}
	}
	for i := range s.Pools.Value {
		p := &s.Pools.Value[i]
		if st := rollout.PoolStateOf(p); st.Lacking > 0 && !st.Paused {
			out = append(out, "hosts of the pool "+p.Name+" get their configuration")
		}
	}
	for _, a := range s.Rotations.Value {
		out = append(out, "rotation of "+a)
	}
	return state.Known(out)
}

// window says what keeps the next host from being taken: the maintenance windows of the
// pool of control planes, and of workers once only those are left.
func (v Survey) window(s Seen) state.Fact[string] {
	if !s.Pools.Known {
		return state.Fact[string]{}
	}
	pool := masters
	if v.onlyWorkersLeft() {
		pool = workers
	}
	for _, p := range s.Pools.Value {
		if p.Name == pool {
			return state.Known(closed(p, s))
		}
	}
	return state.Known("")
}

func closed(p mcfgv1.MachineConfigPool, s Seen) string {
	why := window.Closed(p.Annotations[window.Annotation], s.Now, s.Zones)
	if why == "" {
		return ""
	}
	return "pool " + p.Name + ": " + why
}

func (v Survey) onlyWorkersLeft() bool {
	if !v.Site.Record.Started {
		return false
	}
	left := false
	for _, h := range v.hosts {
		if state.Is(h.facts.Release, v.Site.Record.To) {
			continue
		}
		if !h.worker {
			return false
		}
		left = true
	}
	return left
}
