package upgrade

import (
	"context"
	"time"
)

// wayLimit bounds how long a return waits for etcd's leadership to move.
const wayLimit = 5 * time.Second

// makeWay gives virtual IPs and etcd's leadership away before the daemons end, as far as
// somebody takes them. A host that has to go back does so anyway.
func (a *Agent) makeWay(ctx context.Context) {
	a.depart(ctx)
	ctx, cancel := context.WithTimeout(ctx, wayLimit)
	defer cancel()
	_, _ = a.GiveLead(ctx)
}

// gaveAway reports whether others have the leadership of etcd, and may have the virtual IPs.
func (a *Agent) gaveAway(ctx context.Context) (bool, error) {
	a.mu.Lock()
	left := a.stay != nil
	a.mu.Unlock()
	if !left {
		return false, nil
	}
	return a.GiveLead(ctx)
}

func (a *Agent) depart(ctx context.Context) {
	a.mu.Lock()
	left := a.stay != nil
	a.mu.Unlock()
	if left {
		return
	}
	stay := a.cluster.Leave(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stay = stay
}

// remain lets the host have its virtual IPs again.
func (a *Agent) remain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stay != nil {
		a.stay()
		a.stay = nil
	}
}
