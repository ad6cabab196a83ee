package vip_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// lookEvery is the interval at which the place of a virtual IP is read.
const lookEvery = 10 * time.Millisecond

// watch keeps reading which hosts have the virtual IPs.
type watch struct {
	began time.Time
	end   context.CancelFunc
	all   sync.WaitGroup

	mu sync.Mutex
	// at holds the addresses that were on the host, with the time of their
	// move, or zero while they are on no other host.
	at map[netip.Addr]time.Duration
}

// follow waits until a host other than the given one has an address.
func (w *watch) follow(ctx context.Context, tr *trial, vip netip.Addr, from string) {
	for ctx.Err() == nil {
		if slices.ContainsFunc(tr.Lab.Holders(vip), func(h string) bool { return h != from }) {
			w.note(vip, time.Since(w.began))
			return
		}
		_ = host.Sleep(ctx, lookEvery)
	}
}

func (w *watch) note(vip netip.Addr, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[vip] = at
}

// took returns the time that an address took; known is false if it was not on
// the host.
func (w *watch) took(vip netip.Addr) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.at[vip]
	return at, known
}

// missing returns an error that names an address that was on the host and is on
// no other one.
func (w *watch) missing(vips []netip.Addr) error {
	for _, vip := range vips {
		if at, known := w.took(vip); known && at == 0 {
			return fmt.Errorf("%s is on no other host", vip)
		}
	}
	return nil
}

func (w *watch) stop() {
	w.end()
	w.all.Wait()
}
