package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PollInterval is the pause between two looks. RetryInterval is the pause while
// haproxy has no server, or does not run: then somebody waits for it.
const (
	PollInterval  = 250 * time.Millisecond
	RetryInterval = 100 * time.Millisecond
)

// Source puts haproxy's state into the view: state.NetworkView.Balancer. The
// state is unknown if haproxy does not run, hangs, or is about to stop.
type Source struct {
	Client Client
	// Accepts reports whether haproxy accepts connections; nil tries it on this
	// host.
	Accepts func(context.Context) bool
	// Busy reports whether the host has too much to do; nil asks the kernel.
	Busy func() bool
}

// Name returns the name that is shown to people.
func (Source) Name() string { return "balancer" }

// Run looks until the context ends.
func (s Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	var last state.Fact[state.Balancer]
	var deaf time.Time
	for ctx.Err() == nil {
		if now := s.look(ctx, last, &deaf); !reflect.DeepEqual(now, last) && ctx.Err() == nil {
			last = now
			update(func(v *state.NetworkView) { v.Balancer = now })
		}
		pause := PollInterval
		if last.Value.Live() == 0 {
			pause = RetryInterval
		}
		_ = host.Sleep(ctx, pause) // the loop itself checks the context
	}
	return nil
}

// HangTimeout is the time without an answer after which haproxy counts as hung; one
// that died is noticed at once. On a host with too much to do haproxy gets the
// time Answer: there it was seen to need more than a second, which is no reason
// to move a virtual IP.
const HangTimeout = 1500 * time.Millisecond

// connecting bounds the connection to haproxy's own port.
const connecting = time.Second

// deafFor is how long a haproxy that takes connections may have nobody at its socket: while it
// reads its configuration again, that socket is closed for a moment. Longer than that, nobody
// knows what it does, and what was known counts no more.
const deafFor = 5 * time.Second

// look asks once. If nobody listens, that is an answer too: haproxy listens on
// a socket of this host. deaf is since when nobody does although its port takes connections.
func (s Source) look(ctx context.Context, before state.Fact[state.Balancer], deaf *time.Time) state.Fact[state.Balancer] {
	servers, err := s.servers(ctx)
	if err == nil {
		*deaf = time.Time{}
		return state.Known(apilb.View(servers, before))
	}
	hangs := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if !before.Known || hangs || errors.Is(err, ErrStopping) || !s.accepts(ctx) {
		return state.Fact[state.Balancer]{}
	}
	if deaf.IsZero() {
		*deaf = time.Now()
	}
	if time.Since(*deaf) >= deafFor {
		return state.Fact[state.Balancer]{}
	}
	return before
}

// servers asks, and gives up after HangTimeout unless the host is busy.
func (s Source) servers(ctx context.Context) ([]apilb.Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tooMuch := s.Busy
	if tooMuch == nil {
		tooMuch = busy
	}
	late := time.AfterFunc(HangTimeout, func() {
		if !tooMuch() {
			cancel()
		}
	})
	defer late.Stop()
	return s.Client.Servers(ctx)
}

func (s Source) accepts(ctx context.Context) bool {
	if s.Accepts != nil {
		return s.Accepts(ctx)
	}
	return Accepts(ctx)
}

// Accepts reports whether haproxy takes connections on this host.
func Accepts(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", apilb.BalancerPort))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
