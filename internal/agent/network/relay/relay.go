// Package relay has a host that has taken a virtual IP over in order pass packets of
// earlier connections on to the former holder, which still serves them.
package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Reconciler is the one writer of the nftables tables that pass packets on.
type Reconciler struct {
	// PassOn passes packets on for a while, at the end of which the kernel stops.
	PassOn func(r vrrp.Relay, d time.Duration) error
	Now    func() time.Time

	memory vrrp.Relays
}

// New returns the reconciler of this host.
func New(now func() time.Time) *Reconciler {
	return &Reconciler{PassOn: keepalived.PassOn, Now: now}
}

// Name returns the name for people.
func (*Reconciler) Name() string { return "relay" }

// Withdraw leaves the tables: the kernel stops in time.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile begins to pass packets on where another host has just let a VIP go. One
// that fails is not tried again: a moment later it is of no use.
func (r *Reconciler) Reconcile(_ context.Context, v state.NetworkView) (string, error) {
	after, todo := vrrp.NextRelays(r.memory, v, r.Now())
	r.memory = after
	var said []string
	var errs []error
	for _, one := range todo {
		if err := r.PassOn(one, vrrp.RelayFor); err != nil {
			errs = append(errs, err)
			continue
		}
		said = append(said, fmt.Sprintf("packets of earlier connections to %s go to %s for %s", one.VIP, one.Former, vrrp.RelayFor))
	}
	return strings.Join(said, "; "), errors.Join(errs...)
}
