package resolver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/resolver"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of looks that no event asked for.
const (
	// resync is for the files, which are watched.
	resync = 30 * time.Second
	// debounce is the time for which a file is left alone after a change of it:
	// some tools write in more than one step.
	debounce = 50 * time.Millisecond
	// askUp and askDown are for the name server, while it answers and while it
	// does not.
	askUp   = 2 * time.Second
	askDown = 500 * time.Millisecond
	// askTimeout bounds the wait for an answer.
	askTimeout = time.Second
	// failures is the number of questions in a row that must fail before a name
	// server that answered counts as dead.
	failures = 3
	// revival is the number of answers in a row that bring back one that was
	// dead: each time a service may be restarted, and systemd tolerates five
	// restarts in ten seconds.
	revival = 10
)

type update = func(func(*state.NetworkView))

// Run keeps the view's Upstreams and LocalDNS up to date, and repairs the
// resolver's configuration when another tool writes it.
func (r *Resolver) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	g, ctx := errgroup.WithContext(ctx)
	changed := make(chan struct{}, 1)
	g.Go(func() error { return r.watch(ctx, changed) })
	g.Go(func() error { return r.follow(ctx, changed, update) })
	g.Go(func() error { return r.ask(ctx, update) })
	return g.Wait()
}

// watch tells follow when a file changed. If the kernel has no watch left, or a
// watch ends, follow still looks at the files now and then.
func (r *Resolver) watch(ctx context.Context, changed chan<- struct{}) error {
	for ctx.Err() == nil {
		_ = r.Host.Watch(ctx, func() { // follow looks by itself until the next try
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		_ = host.Sleep(ctx, resync) // the loop checks the context itself
	}
	return nil
}

func (r *Resolver) follow(ctx context.Context, changed <-chan struct{}, update update) error {
	var last []netip.AddrPort
	for first := true; ctx.Err() == nil; first = false {
		// An error leaves things as they were: Reconcile reports it when it is
		// called, and what could not be read is read again.
		if found, err := r.siteServers(); err == nil && (first || !slices.Equal(found, last)) {
			last = found
			update(func(v *state.NetworkView) { v.Upstreams = decide.Upstreams(found, nil, v.Settings.VIPs()) })
		}
		_ = r.again(ctx)
		wait(ctx, changed, resync)
		_ = host.Sleep(ctx, debounce) // the loop checks the context itself
	}
	return nil
}

// siteServers returns the configured name servers without the host's own
// addresses. VIPs may be among them.
func (r *Resolver) siteServers() ([]netip.AddrPort, error) {
	found, err := r.Host.Servers()
	if err != nil {
		return nil, err
	}
	own, err := r.Addresses()
	return decide.Upstreams(found, own, nil), err
}

// ask finds out again and again whether the host's own name server answers.
func (r *Resolver) ask(ctx context.Context, update update) error {
	var p pulse
	for ctx.Err() == nil {
		pause := askDown
		if server, name, ok := r.question(); ok {
			before := p.said
			p = p.next(answers(ctx, server, name))
			if p.said != before {
				said := p.said
				update(func(v *state.NetworkView) { v.LocalDNS = said })
			}
			if p.missed == 0 && state.Is(p.said, true) {
				pause = askUp
			}
		}
		wait(ctx, r.asked, pause)
	}
	return nil
}

// pulse holds what the last answers of a name server show.
type pulse struct {
	said state.Fact[bool]
	// missed and got count the last questions in a row without and with an
	// answer.
	missed, got int
	// died is true once it answered and then did not.
	died bool
}

// next takes in one more question. One answer is enough for a name server that
// was never dead; one missing answer is not enough for its death.
func (p pulse) next(answered bool) pulse {
	if answered {
		p.missed, p.got = 0, p.got+1
		if !p.died || p.got >= revival || state.Is(p.said, true) {
			p.said = state.Known(true)
		}
		return p
	}
	p.missed, p.got = p.missed+1, 0
	if p.missed >= failures {
		p.died = p.died || state.Is(p.said, true)
		p.said = state.Known(false)
	}
	return p
}

// question returns the name to ask for, and the server: the API's name, which our
// name server knows by itself. There is none before the host has an address.
func (r *Resolver) question() (server, name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.questionLocked()
}

// questionLocked is question for a caller that holds mu.
func (r *Resolver) questionLocked() (server, name string, ok bool) {
	if !r.known || len(r.view.Host.Addresses) == 0 || r.view.Settings.Domain == "" {
		return "", "", false
	}
	at := netip.AddrPortFrom(r.view.Host.Addresses[0], r.Port)
	return at.String(), "api-int." + r.view.Settings.Domain + ".", true
}

// answers reports whether a name server knows a name.
func answers(ctx context.Context, server, name string) bool {
	reply, err := exchange(ctx, server, name)
	return err == nil && reply.Rcode == dns.RcodeSuccess
}

func exchange(ctx context.Context, server, name string) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	question := new(dns.Msg).SetQuestion(name, dns.TypeA)
	question.Id = uint16(rand.Uint32()) //nolint:gosec // a number to tell answers apart, from this host to itself
	client := dns.Client{Net: "udp", Timeout: askTimeout, Dialer: &net.Dialer{}}
	reply, _, err := client.ExchangeContext(ctx, question, server)
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", server, name, err)
	}
	return reply, nil
}

// wait returns when said gets a value, after d, or with the context.
func wait(ctx context.Context, said <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-said:
	case <-timer.C:
	}
}
