// Package netwatch reads the addresses and routes of a host from the kernel,
// and follows them as they change.
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
	// Resync is how often everything is read without the kernel having said
	// that it changed.
	Resync = 30 * time.Second
	// Lasting is how long another choice of the host's own addresses must hold
	// before it takes the former's place for good: an interface that bounces
	// takes its address with it for a moment.
	Lasting = time.Minute
	// settle is how long a change is given to be followed by others: an
	// interface that comes up is many.
	settle = 20 * time.Millisecond
	// retry is how long to wait before following the kernel again.
	retry = time.Second
)

// Source follows the kernel. It puts Addresses and Routes into the view, and
// the host's own addresses and interface as they follow from these.
type Source struct {
	// Namespace is the network namespace to look at; nil is this process's own.
	Namespace *netns.NsHandle
	// Path is where the host's own addresses are kept for the next boot; empty
	// for nowhere.
	Path string
	// Logf tells what a person should know; nil for nobody.
	Logf func(format string, args ...any)
	// Now returns the time; nil stands for time.Now.
	Now func() time.Time

	mu sync.Mutex
	// chosen is what was chosen for good: while the host has these addresses
	// they are its own.
	chosen nodeaddress.Choice
	// current is what the view says, since when.
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
	var last Snapshot
	known := false
	for ctx.Err() == nil {
		// The error says that the kernel said more than could be read, or that
		// the socket broke: what is there is read anew.
		_ = s.session(ctx, func(now Snapshot) {
			if !known || !now.equal(last) {
				last, known = now, true
				update(func(v *state.NetworkView) { s.apply(v, now) })
			}
			s.last()
		})
		_ = host.Sleep(ctx, retry) // the loop looks at the context itself
	}
	return nil
}

// apply puts a snapshot into the view. An address that goes for a moment, with
// none to take its place, is still the host's.
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

// recall reads what was chosen in the boot before.
func (s *Source) recall() (err error) {
	if s.Path != "" {
		s.chosen, err = Chosen(s.Path)
	}
	return err
}

// last makes a choice that lasted the one that stays.
func (s *Source) last() {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(s.chosen.Addresses) == 0
	if len(s.current.Addresses) == 0 || s.current.Same(s.chosen) || !first && s.now().Sub(s.since) < Lasting {
		return
	}
	if s.Path != "" {
		if err := Keep(s.Path, s.current); err != nil {
			s.logf("%v", err) // the next look tries again
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

// session subscribes, reads everything, and again after each change.
func (s *Source) session(ctx context.Context, seen func(Snapshot)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changed, err := s.subscribe(ctx, cancel)
	if err != nil {
		return err
	}
	for {
		now, err := Read(s.Namespace)
		if err != nil {
			return err
		}
		seen(now)
		if err := next(ctx, changed); err != nil {
			return err
		}
	}
}

// next waits for a change, or until it is time to look without one.
func next(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(Resync)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	case <-changed:
		return host.Sleep(ctx, settle)
	}
}

// subscribe returns a channel on which each change of an address, a route or a
// link is said. fail is called when a subscription ends; all end with the
// context.
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

// say passes on that there was a change. It ends with its subscription.
func say[T any](updates <-chan T, changed chan<- struct{}, fail context.CancelCauseFunc) {
	for range updates {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	fail(errors.New("follow the kernel's network: the subscription ended"))
}
