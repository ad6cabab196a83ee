// Package netwatch reads the addresses and routes of a host from the kernel,
// and follows their changes.
package netwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Times of the source.
const (
	// Resync is the interval at which everything is read even if the kernel
	// reported no change.
	Resync = 30 * time.Second
	// Lasting is how long a different choice of the host's own addresses must
	// hold before it replaces the former one for good: an interface that
	// bounces loses its address for a moment.
	Lasting = time.Minute
	// debounce is the wait for further changes after a change: an interface that
	// comes up causes many.
	debounce = 20 * time.Millisecond
	// retry is the pause before following the kernel again.
	retry = time.Second
)

// Source follows the kernel. It puts Addresses and Routes into the view, and
// also the host's own addresses and interface, which follow from these.
type Source struct {
	// Namespace is the network namespace to read; nil means this process's own.
	Namespace *netns.NsHandle
	// Changed gets a value when the view has changed, whoever changed it; nil for
	// none. Which addresses are the host's own depends on the site's networks and
	// VIPs too, and another source brings these.
	Changed <-chan struct{}
	// Path is the file that keeps the host's own addresses for the next boot;
	// empty for none.
	Path string
	// Logf logs what an administrator should know; nil drops it.
	Logf func(format string, args ...any)
	// Now returns the time; nil means time.Now.
	Now func() time.Time

	mu sync.Mutex
	// chosen is the lasting choice: while the host has these addresses, they
	// are its own.
	chosen nodeaddress.Choice
	// current is the choice in the view, and since is the time of its last
	// change.
	current nodeaddress.Choice
	since   time.Time
}

// Name implements network.Source.
func (s *Source) Name() string { return "kernel" }

// Run follows the kernel until the context ends.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	if err := s.recall(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		// An error means that the kernel sent more than could be read, or that
		// the socket broke: read everything anew.
		_ = s.session(ctx, func(now Snapshot) {
			update(func(v *state.NetworkView) { s.apply(v, now) })
			s.last()
		})
		_ = host.Sleep(ctx, retry) // the loop itself checks the context
	}
	return nil
}

// apply puts a snapshot into the view. An address that disappears for a moment,
// without another in its place, remains the host's.
func (s *Source) apply(v *state.NetworkView, now Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Addresses, v.Routes, v.Hardware = now.Addresses, now.Routes, now.Hardware
	in := nodeaddress.Of(*v)
	if len(s.chosen.Addresses) > 0 {
		in.Previous = s.chosen
	}
	choice, err := nodeaddress.Decide(in)
	if err != nil {
		return
	}
	v.Host.Addresses, v.Host.Interface = choice.Addresses, choice.Interface
	if !choice.Same(s.current) {
		s.current, s.since = choice, s.now()
	}
}

// recall reads the choice of the boot before.
func (s *Source) recall() (err error) {
	if s.Path != "" {
		s.chosen, err = LoadChoice(s.Path)
	}
	return err
}

// last makes a choice lasting that has held for long enough.
func (s *Source) last() {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(s.chosen.Addresses) == 0
	if len(s.current.Addresses) == 0 || s.current.Same(s.chosen) || !first && s.now().Sub(s.since) < Lasting {
		return
	}
	if s.Path != "" {
		if err := StoreChoice(s.Path, s.current); err != nil {
			s.logf("%v", err) // the next read tries again
			return
		}
	}
	s.chosen = s.current
	s.logf("this host's own addresses are %v on %s: %s", s.chosen.Addresses, s.chosen.Interface, s.chosen.Reason)
}

func (s *Source) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Source) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
	}
}

// session subscribes to changes, reads everything, and reads again after each
// change of the kernel. After one of the view it tells the last reading again.
func (s *Source) session(ctx context.Context, seen func(Snapshot)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changed, err := s.subscribe(ctx, cancel)
	if err != nil {
		return err
	}
	var now Snapshot
	for old := true; ; {
		if old {
			if now, err = Read(s.Namespace); err != nil {
				return err
			}
		}
		seen(now)
		if old, err = s.next(ctx, changed); err != nil {
			return err
		}
	}
}

// next waits for a change, but no longer than Resync, and reports whether the last
// reading of the kernel is old.
func (s *Source) next(ctx context.Context, changed <-chan struct{}) (old bool, err error) {
	timer := time.NewTimer(Resync)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-timer.C:
		return true, nil
	case <-s.Changed:
		return false, nil
	case <-changed:
		return true, host.Sleep(ctx, debounce)
	}
}

// subscribe returns a channel that reports each change of an address, a route
// or a link. It calls fail when a subscription ends; all end with the context.
func (s *Source) subscribe(ctx context.Context, fail context.CancelCauseFunc) (<-chan struct{}, error) {
	broke := func(err error) { fail(fmt.Errorf("follow the kernel's network: %w", err)) }
	changed := make(chan struct{}, 1)

	addresses := make(chan netlink.AddrUpdate)
	err := netlink.AddrSubscribeWithOptions(addresses, ctx.Done(), netlink.AddrSubscribeOptions{Namespace: s.Namespace, ErrorCallback: broke})
	if err != nil {
		return nil, fmt.Errorf("follow addresses: %w", err)
	}
	go say(addresses, changed, fail)

	routes := make(chan netlink.RouteUpdate)
	err = netlink.RouteSubscribeWithOptions(routes, ctx.Done(), netlink.RouteSubscribeOptions{Namespace: s.Namespace, ErrorCallback: broke})
	if err != nil {
		return nil, fmt.Errorf("follow routes: %w", err)
	}
	go say(routes, changed, fail)

	links := make(chan netlink.LinkUpdate)
	err = netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{Namespace: s.Namespace, ErrorCallback: broke})
	if err != nil {
		return nil, fmt.Errorf("follow links: %w", err)
	}
	go say(links, changed, fail)
	return changed, nil
}

// say reports each change on a channel. It ends with its subscription.
func say[T any](updates <-chan T, changed chan<- struct{}, fail context.CancelCauseFunc) {
	for range updates {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	fail(errors.New("follow the kernel's network: the subscription ended"))
}
