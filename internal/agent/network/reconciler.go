// Package network keeps the network of one host in step with its cluster: VIPs,
// load balancer, names and the host's own resolver. Sources observe changes and
// put them into one view. Reconcilers make what they own what the
// view says. Each reconciler is the one writer of its state.
package network

import (
	"context"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Source observes one part of the view.
type Source interface {
	// Name returns the name for people: "nodes", "kernel", "balancer".
	Name() string
	// Run calls update with each change of its part of the view, until the
	// context ends. It does its own retries and returns only with the context, or
	// with an error that the agent cannot live with. The function given to update
	// must not block and must touch its own part of the view only; what it puts
	// there is never changed afterwards.
	Run(ctx context.Context, update func(func(*state.NetworkView))) error
}

// Reconciler keeps one thing on the host in step with the view, and alone writes it.
type Reconciler interface {
	// Name returns the name for people: "keepalived", "haproxy", "resolver".
	Name() string
	// Reconcile makes the state what the view says. It is called for every change
	// of the view and every 30 s, never twice at once, and again after an error.
	// It does nothing if nothing is to be done, and leaves things as they are if
	// the view does not know enough. It returns what changed in one line, empty
	// if nothing did.
	Reconcile(ctx context.Context, view state.NetworkView) (changed string, err error)
	// Withdraw takes the state back in an orderly stop of the agent, if that is
	// right. Most reconcilers do nothing: what they own outlives the agent.
	Withdraw(ctx context.Context) error
}
