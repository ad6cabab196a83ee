package controlplane

import (
	"context"
	"slices"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/state"
)

// tellMachine says in this host's node, once, which machine it is. The peer
// learns it while the host is healthy, and never fences another machine.
func (r *run) tellMachine(ctx context.Context, client *kube.Client, nodes []state.Node) {
	there := slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Name == r.facts.NodeName })
	if r.told || !there || !r.Site.Topology().Fencing {
		return
	}
	uuid, serial, err := fence.OwnIdentity()
	if err != nil {
		r.logf("%v", err) // and say that it tells nothing
	}
	m := state.Machine{UUID: uuid, Serial: serial}
	if err := client.Annotate(ctx, r.facts.NodeName, state.AnnotationMachine, m.String()); err != nil {
		r.logf("%v", err)
		return
	}
	r.told = true
}
