package clusteroperator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
)

func etcd(in Input) verdict {
	e := in.Facts.Etcd
	if !e.Members.Known {
		return verdict{}
	}
	v := verdict{available: state.Known(false), known: e.Alarms.Known}
	voters := 0
	for _, m := range e.Members.Value {
		switch {
		case !m.Started:
			v.unwell = append(v.unwell, m.Host+" does not answer")
		case !m.Voter:
			v.moving = m.Host + " copies the data and is no voter yet"
			v.unwell = append(v.unwell, m.Host+" is a learner")
		default:
			voters++
		}
	}
	// Whoever reads this reads it from the API, which etcd serves.
	v.available = state.Known(voters > 0)
	for _, a := range e.Alarms.Value {
		v.unwell = append(v.unwell, "etcd says: "+a)
	}
	if state.Is(e.Equal, false) {
		v.unwell = append(v.unwell, "the data of its members differ")
	}
	return v
}

// ready names hosts that are not ready. Of the others one is enough to serve.
func ready(in Input, workers bool) verdict {
	if len(in.Facts.Hosts) == 0 {
		return verdict{}
	}
	v := verdict{available: state.Known(false), known: true}
	for _, h := range in.Facts.Hosts {
		switch {
		case h.Worker && !workers:
		case !h.Ready.Known:
			v.known = false
			if !v.available.Value {
				v.available = state.Fact[bool]{}
			}
		case !h.Ready.Value:
			v.unwell = append(v.unwell, h.Name+" is not ready")
		default:
			v.available = state.Known(true)
		}
	}
	return v
}

// apiServer judges by the nodes of control planes: kubelet is ready there only while it
// reaches its API server.
func apiServer(in Input) verdict { return ready(in, false) }

func kubelet(in Input) verdict { return ready(in, true) }

func leader(alive Lease, who string) verdict {
	v := verdict{available: alive, known: alive.Known}
	if alive.Known && !alive.Value {
		v.unwell = []string{"no leader of " + who + " renews its lease"}
	}
	return v
}

func workload(w state.Fact[parts.Workload], who string) verdict {
	if !w.Known {
		return verdict{}
	}
	return judged(w.Value, who)
}

func judged(w parts.Workload, who string) verdict {
	v := verdict{available: state.Known(w.Available > 0 || w.Wanted == 0), known: true, moving: w.Moving(who)}
	if unwell := w.Unavailable(who); unwell != "" {
		v.unwell = []string{unwell}
	}
	return v
}

// network is the pod network, and kube-proxy where it can be read: without it no Service
// of the cluster has an address that leads anywhere.
func network(in Input) verdict {
	v := workload(in.Workloads.Network, parts.PodNetwork)
	proxy := in.Workloads.Proxy
	if !proxy.Known {
		return v
	}
	w := judged(proxy.Value, parts.KubeProxy)
	v.unwell = append(v.unwell, w.unwell...)
	v.moving = cmp.Or(v.moving, w.moving)
	if state.Is(v.available, true) {
		v.available = w.available
	}
	return v
}

func ingress(in Input) verdict {
	if !in.Workloads.Routers.Known {
		return verdict{}
	}
	v := verdict{available: state.Known(true), known: true}
	for _, name := range slices.Sorted(maps.Keys(in.Workloads.Routers.Value)) {
		one := judged(in.Workloads.Routers.Value[name], "routers of "+name)
		v.unwell = append(v.unwell, one.unwell...)
		if one.moving != "" {
			v.moving = one.moving
		}
		if !one.available.Value {
			v.available = state.Known(false)
		}
	}
	return v
}

func pools(in Input) verdict {
	if !in.Pools.Known {
		return verdict{}
	}
	v := verdict{available: state.Known(true), known: true}
	for _, p := range in.Pools.Value {
		if p.Degraded {
			v.unwell = append(v.unwell, "pool "+p.Name+": "+p.Message)
		}
		if p.Updating {
			v.moving = "pool " + p.Name + ": hosts get another configuration"
		}
	}
	return v
}
