// Package network keeps the network of one host in step with its cluster:
// virtual IPs, load balancer, names and the host's own resolver. Sources see
// what changes and put it into one view; pieces make what they own what the
// view says. Each piece is the one writer of its state.
package network

import (
	"context"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Source sees one part of the view change.
type Source interface {
	// Name is for people: "nodes", "kernel", "balancer".
	Name() string
	// Run calls update with a change of the view whenever there is one, until
	// the context ends. It sees to its own retries and returns only with the
	// context, or with an error that the agent cannot live with. The function
	// given to update must not block and must touch its own part of the view
	// only; what it puts there is never changed afterwards.
	Run(ctx context.Context, update func(func(*state.NetworkView))) error
}

// Piece owns one piece of state on the host.
type Piece interface {
	// Name is for people: "keepalived", "haproxy", "resolver".
	Name() string
	// Reconcile makes the piece what the view says. It is called for every
	// change of the view and every 30 s, never twice at once, and again after
	// an error. It does nothing where nothing is to be done, and leaves things
	// as they are where the view does not know enough. What changed is said in
	// one line, empty if nothing did.
	Reconcile(ctx context.Context, view state.NetworkView) (changed string, err error)
	// Withdraw takes the piece back in an orderly stop of the agent, where that
	// is right; most pieces outlive the agent and do nothing.
	Withdraw(ctx context.Context) error
}
