package network

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a host that is about to boot.
const (
	// saysLimit bounds the wait until the API knows that VIPs leave. Without an API the
	// host leaves without a word, and connections are reset.
	saysLimit = 2 * time.Second
	// heardWithin is the time in which the other hosts then hear it from the API.
	heardWithin = 200 * time.Millisecond
	// leaveLimit bounds the wait for VIPs to leave. Another host has them in less than
	// a second, or does not take them.
	leaveLimit = 5 * time.Second
	leaveLook  = 20 * time.Millisecond
	// leaveAfter is the time for answers that are on their way.
	leaveAfter = time.Second
)

// Leave gives the VIPs of this host away, because it is about to boot, and waits until
// they have left. The other hosts hear of it first: the next holder has to know from where
// it takes connections over. The caller calls stay if the host does not boot. An upgrade and
// a shutdown may have the VIPs leave at once: they come back once both have called stay.
func (b *ViewStore) Leave(ctx context.Context) (stay func()) {
	b.Update(func(v *state.NetworkView) { // it holds the lock of leavers, too
		b.leavers++
		v.Announces = true
	})
	if !vrrp.Announced(b.View()) {
		until(ctx, saysLimit, func() bool { return vrrp.Announced(b.View()) })
		_ = host.Sleep(ctx, heardWithin)
	}
	b.Update(func(v *state.NetworkView) { v.Leaving = true })
	if b.leaves() {
		until(ctx, leaveLimit, func() bool { return !b.leaves() })
		_ = host.Sleep(ctx, leaveAfter) // a shorter wait costs some answers
	}
	return sync.OnceFunc(func() {
		b.Update(func(v *state.NetworkView) {
			if b.leavers--; b.leavers == 0 {
				v.Announces, v.Leaving = false, false
			}
		})
	})
}

// until waits until something is so, and no longer than a limit.
func until(ctx context.Context, limit time.Duration, so func() bool) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !so() && host.Sleep(limited, leaveLook) == nil {
		continue
	}
}

// leaves reports whether a VIP is still to leave this host.
func (b *ViewStore) leaves() bool {
	v := b.View()
	return vrrp.Leaves(v) && (vrrp.Holds(v, vrrp.API) || vrrp.Holds(v, vrrp.Ingress))
}
