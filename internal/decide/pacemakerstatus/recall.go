package pacemakerstatus

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// Retakes is how long Pacemaker may take to record anew what runs on a host. In the
// lab at most one of the readings every 50 ms fell into that time; a busy host
// takes longer.
const Retakes = 10 * time.Second

// Recalled returns the input with the resources that ran at the last reading, and
// their operations, where Pacemaker has lost their record although their host has
// stayed; told reports whether there are any. A missing record does not mean that
// nothing runs: a stopped resource has a record of its stop. Pacemaker deletes the
// record of what runs and then writes it again where another host joins (Pacemaker
// before 2.1.7), and where an administrator refreshes everything. A reading between
// the two steps shows all of it as stopped (ClusterLabs/pacemaker pull request
// 3127).
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
			resources = slices.Delete(resources, i, i+1) // the same instance, listed as stopped
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

// stands reports whether a node is online and neither joins nor leaves.
func stands(c crmmon.Cluster, node string) bool {
	return slices.ContainsFunc(c.Nodes, func(n crmmon.Node) bool { return n.Name == node && n.Online && !n.Pending && !n.Shutdown })
}

// tells reports whether Pacemaker has any record of a resource on a node: that it
// is there, or the outcome of an operation on it.
func tells(c crmmon.Cluster, node string, r crmmon.Resource) bool {
	return slices.ContainsFunc(c.Operations, func(o crmmon.Operation) bool { return o.Node == node && base(o.Resource) == base(r.ID) }) ||
		slices.ContainsFunc(c.Resources, func(o crmmon.Resource) bool { return base(o.ID) == base(r.ID) && slices.Contains(o.Nodes, node) })
}

// has reports whether a resource is still configured.
func has(c crmmon.Cluster, r crmmon.Resource) bool {
	return slices.ContainsFunc(c.Resources, func(o crmmon.Resource) bool { return base(o.ID) == base(r.ID) && !o.Orphaned }) ||
		slices.ContainsFunc(c.Clones, func(o crmmon.Clone) bool { return o.ID == r.Clone })
}
