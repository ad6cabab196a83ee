// Package resolver is the reconciler that makes the host's programs ask the
// host's own name server first while that answers. It is also the source of what
// the view says of name servers: the site's, and whether the host's own answers.
// It is the one writer of the resolver's configuration.
package resolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/resolver"
	decide "github.com/holdfast/holdfast/internal/decide/resolver"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Options holds what a resolver needs.
type Options struct {
	// Host is the host's resolver; nil means that of this machine.
	Host *resolver.Host
	// Root is the directory with the files that kubelet waits for; empty means /.
	Root string
	// Expected reports whether kubelet starts a name server on this host. Nil
	// looks for its static pod.
	Expected func() bool
	// Addresses lists the host's own addresses; nil means the kernel's.
	Addresses func() ([]netip.Addr, error)
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Port is the port of the host's name server; 0 means 53.
	Port uint16
}

// Resolver is the reconciler and the source.
type Resolver struct {
	Options
	start   time.Time
	booting bool

	mu       sync.Mutex
	answered bool
	// view is the last one that Reconcile was given; known is true once there was
	// one.
	view  state.NetworkView
	known bool
	// asked gets a value when there is another name server to ask.
	asked chan struct{}
}

// New returns the resolver of a host.
func New(o Options) *Resolver {
	if o.Host == nil {
		o.Host = resolver.New(resolver.Options{Root: o.Root})
	}
	if o.Expected == nil {
		o.Expected = func() bool { return host.Exists(filepath.Join(o.Root, coredns.PodPath)) }
	}
	if o.Addresses == nil {
		o.Addresses = interfaceAddresses
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Port == 0 {
		o.Port = 53
	}
	return &Resolver{
		Options: o, start: o.Now(), asked: make(chan struct{}, 1),
		booting: !host.Exists(filepath.Join(o.Root, resolvconf.ReadyPath)),
	}
}

// Name implements network.Reconciler and network.Source.
func (r *Resolver) Name() string { return "resolver" }

// Reconcile makes the resolver's configuration what the view says.
func (r *Resolver) Reconcile(ctx context.Context, view state.NetworkView) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, _, _ := r.questionLocked()
	r.view, r.known = view, true
	if now, _, _ := r.questionLocked(); now != before {
		select {
		case r.asked <- struct{}{}:
		default:
		}
	}
	return r.apply(ctx)
}

// again repairs the file after somebody else wrote it.
func (r *Resolver) again(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		return nil
	}
	_, err := r.apply(ctx)
	return err
}

// apply carries the decision out. The caller holds mu.
func (r *Resolver) apply(ctx context.Context) (string, error) {
	r.answered = r.answered || state.Is(r.view.LocalDNS, true)
	d := decide.Decide(r.view, decide.Memory{
		Booting: r.booting, Expected: r.Expected(), Answered: r.answered, Waiting: r.Now().Sub(r.start),
	})
	said, err := "", error(nil)
	switch d.Do {
	case decide.Leave:
		return "", nil
	case decide.Prepend:
		said, err = r.prepend(ctx, d)
	case decide.Restore:
		var changed bool
		if changed, err = r.Host.Restore(ctx); changed {
			said = "name servers are the site's own again: " + d.Reason
		}
	}
	return said, errors.Join(err, r.ready())
}

func (r *Resolver) prepend(ctx context.Context, d decide.Decision) (string, error) {
	managed := filepath.Join(r.Root, resolvconf.ManagedPath)
	if !host.Exists(managed) {
		if err := host.WriteFileAtomic(managed, nil, 0o644); err != nil {
			return "", err
		}
	}
	changed, err := r.Host.Prepend(ctx, resolvconf.Own{Server: d.Server, Search: d.Search})
	if !changed {
		return "", err
	}
	return "name server " + d.Server.String() + " comes first: " + d.Reason, err
}

// ready tells kubelet that pods may copy the configuration as it is, whether or
// not it could be made right.
func (r *Resolver) ready() error {
	path := filepath.Join(r.Root, resolvconf.ReadyPath)
	if host.Exists(path) {
		return nil
	}
	return host.WriteFileAtomic(path, nil, 0o644)
}

// Withdraw does nothing: the name server outlives the agent, and when it is gone,
// resolvers go on with the next one.
func (r *Resolver) Withdraw(context.Context) error { return nil }

// Remove undoes what the agent did to the resolver's configuration, when the host
// leaves its cluster.
func (r *Resolver) Remove(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = false
	_, err := r.Host.Remove(ctx)
	for _, path := range []string{resolvconf.ManagedPath, resolvconf.ReadyPath} {
		if rm := os.Remove(filepath.Join(r.Root, path)); rm != nil && !os.IsNotExist(rm) {
			err = errors.Join(err, rm)
		}
	}
	return err
}

func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	return out, nil
}
