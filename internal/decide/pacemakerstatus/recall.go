package pacemakerstatus

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// Retakes is how long Pacemaker may take to write down anew what runs on a host.
// In the lab a look every 50 ms sees it once at most; a busy host takes longer.
const Retakes = 10 * time.Second

// Recalled is the input with what ran at the last look, and its operations, where
// Pacemaker has no record of it any more and its host has stayed; told is whether
// there is any. That nothing is recorded is not that nothing runs: what was
// stopped has the record of that. Where another host joins (Pacemaker before
// 2.1.7), and where a person has everything looked at anew, the record of what
// runs is deleted and then written again, and whoever looks between the two is
// told that all of it is stopped (ClusterLabs/pacemaker pull request 3127).
func (in Input) Recalled(last Input) (out Input, told bool) {
	now, was := in.Cluster.Value, last.Cluster.Value
	resources, operations := slices.Clone(now.Resources), slices.Clone(now.Operations)
	for _, r := range was.Resources {
		r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), func(node string) bool {
			return !stands(was, node) || !stands(now, node) || tells(now, node, r)
		})
		if len(r.Nodes) == 0 || !has(now, r) {
			continue
		}
		if i := slices.IndexFunc(resources, func(o crmmon.Resource) bool { return o.ID == r.ID && len(o.Nodes) == 0 }); i >= 0 {
			resources = slices.Delete(resources, i, i+1) // the same instance, as stopped
		}
		resources, told = append(resources, r), true
		for _, o := range was.Operations {
			if slices.Contains(r.Nodes, o.Node) && base(o.Resource) == base(r.ID) {
				operations = append(operations, o)
			}
		}
	}
	in.Cluster.Value.Resources, in.Cluster.Value.Operations = resources, operations
	return in, told
}

// stands reports whether a node is there and neither comes nor goes.
func stands(c crmmon.Cluster, node string) bool {
	return slices.ContainsFunc(c.Nodes, func(n crmmon.Node) bool { return n.Name == node && n.Online && !n.Pending && !n.Shutdown })
}

// tells reports whether anything is said of a resource on a node: that it is
// there, or the outcome of anything that was done with it.
func tells(c crmmon.Cluster, node string, r crmmon.Resource) bool {
	return slices.ContainsFunc(c.Operations, func(o crmmon.Operation) bool { return o.Node == node && base(o.Resource) == base(r.ID) }) ||
		slices.ContainsFunc(c.Resources, func(o crmmon.Resource) bool { return base(o.ID) == base(r.ID) && slices.Contains(o.Nodes, node) })
}

// has reports whether a resource is configured still.
func has(c crmmon.Cluster, r crmmon.Resource) bool {
	return slices.ContainsFunc(c.Resources, func(o crmmon.Resource) bool { return base(o.ID) == base(r.ID) && !o.Orphaned }) ||
		slices.ContainsFunc(c.Clones, func(o crmmon.Clone) bool { return o.ID == r.Clone })
}
