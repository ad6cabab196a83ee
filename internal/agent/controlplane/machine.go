package controlplane

import (
	"context"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// untold reports whether this host's node has still to say which machine it is:
// once in the life of an agent, and whenever a node that was made anew says
// nothing. Of two the peer fences that machine; of three a person types its serial number who
// replaces it.
func (r *Agent) untold(nodes []state.Node) bool {
	return r.Site.Topology().ControlPlanes > 1 && slices.ContainsFunc(nodes, func(n state.Node) bool {
		_, said := n.Annotations[state.AnnotationMachine]
		return n.Name == r.facts.NodeName && (!r.told || !said)
	})
}

// tellMachine publishes in this host's node which machine it is. The peer learns
// it while the host is healthy, and never fences another machine.
func (r *Agent) tellMachine(ctx context.Context, client *kube.Client, nodes []state.Node) error {
	if !r.untold(nodes) {
		return nil
	}
	uuid, serial, err := fence.OwnIdentity()
	if err != nil {
		r.Log.Warn("which machine this is", "err", err) // and publish an empty identity
	}
	m := state.Machine{UUID: uuid, Serial: serial}
	if err := client.Annotate(ctx, r.facts.NodeName, state.AnnotationMachine, m.String()); err != nil {
		return err
	}
	r.told = true
	return nil
}
