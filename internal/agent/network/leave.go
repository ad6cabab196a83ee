package network

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a host that is about to boot.
const (
	// leaveLimit bounds the wait for VIPs to leave. Another host has them in less than
	// a second, or does not take them.
	leaveLimit = 5 * time.Second
	leaveLook  = 20 * time.Millisecond
	// leaveAfter is the time for answers that are on their way.
	leaveAfter = time.Second
)

// Leave gives the VIPs of this host away, because it is about to boot, and waits until
// they have left. The caller calls stay if the host does not boot.
func (b *ViewStore) Leave(ctx context.Context) (stay func()) {
	b.Update(func(v *state.NetworkView) { v.Leaving = true })
	if b.leaves() {
		limited, cancel := context.WithTimeout(ctx, leaveLimit)
		defer cancel()
		for b.leaves() && host.Sleep(limited, leaveLook) == nil {
			continue
		}
		_ = host.Sleep(ctx, leaveAfter) // a shorter wait costs some answers
	}
	return func() { b.Update(func(v *state.NetworkView) { v.Leaving = false }) }
}

// leaves reports whether a VIP is still to leave this host.
func (b *ViewStore) leaves() bool {
	v := b.View()
	return vrrp.Leaves(v) && (vrrp.Holds(v, vrrp.API) || vrrp.Holds(v, vrrp.Ingress))
}
