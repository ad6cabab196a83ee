// Package links sets what the kernel does with the host's interfaces as VIPs and
// routes need it: the interface that has an address answers ARP for it, and the
// host accepts router advertisements although it forwards.
package links

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Kernel is the part of the kernel that the reconciler changes. nic.Kernel
// implements it.
type Kernel interface {
	Links() ([]uplink.Link, error)
	Settings() (uplink.Settings, error)
	SetARP() error
	Hear(name string) error
}

// Reconciler is a network.Reconciler.
type Reconciler struct {
	Kernel Kernel
	// Solicit asks for the routers of an interface's network.
	Solicit func(ctx context.Context, name string) error
}

// Name implements network.Reconciler.
func (*Reconciler) Name() string { return "links" }

// Withdraw implements network.Reconciler. It does nothing: the host goes on as it is.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile implements network.Reconciler. It changes only what has the kernel's
// default, and nothing that somebody has set.
func (p *Reconciler) Reconcile(ctx context.Context, view state.NetworkView) (string, error) {
	arp, err := p.arp()
	heard, failed := p.hear(ctx, view)
	var told []string
	for _, s := range []string{arp, heard} {
		if s != "" {
			told = append(told, s)
		}
	}
	return strings.Join(told, "; "), errors.Join(err, failed)
}

// arp makes each interface answer for its own addresses only. With two NICs in
// one network either would answer for both, and the adverts of a VIP would come
// to the one that nobody listens on.
func (p *Reconciler) arp() (string, error) {
	s, err := p.Kernel.Settings()
	if err != nil || !s.Loose() {
		return "", err
	}
	if err := p.Kernel.SetARP(); err != nil {
		return "", err
	}
	return "each interface answers ARP for its own addresses only", nil
}

// hear makes the kernel accept router advertisements where it did before this
// host forwarded, and asks the routers at once: the route may be gone already.
func (p *Reconciler) hear(ctx context.Context, view state.NetworkView) (string, error) {
	list, err := p.Kernel.Links()
	if err != nil {
		return "", err
	}
	var told []string
	var errs []error
	for _, name := range uplink.Deaf(list, uplink.Own(view)) {
		if err := p.Kernel.Hear(name); err != nil {
			errs = append(errs, err)
			continue
		}
		told = append(told, name)
		if err := p.Solicit(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	if len(told) == 0 {
		return "", errors.Join(errs...)
	}
	return "router advertisements are accepted on " + strings.Join(told, ", ") + " although this host forwards", errors.Join(errs...)
}
