// Package mdns makes a host known to its neighbours, so that they find it by
// its name while the API cannot tell them.
package mdns

import (
	"context"
	"fmt"

	decide "github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Publisher publishes adverts.
type Publisher interface {
	// Set publishes an advert in place of the last one, and reports whether it is
	// a new one.
	Set(decide.Advert) (changed bool, err error)
	// Close withdraws what was published.
	Close() error
}

// Reconciler owns what the host publishes of itself.
type Reconciler struct {
	publisher Publisher
	speaks    bool
}

// New returns the reconciler.
func New(p Publisher) *Reconciler { return &Reconciler{publisher: p} }

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "mdns" }

// Reconcile implements network.Reconciler.
func (p *Reconciler) Reconcile(_ context.Context, view state.NetworkView) (string, error) {
	advert, ok := decide.DecideAdvert(view)
	if !ok {
		return p.silence()
	}
	p.speaks = true
	changed, err := p.publisher.Set(advert)
	if err != nil {
		return "", fmt.Errorf("publish %s by multicast DNS: %w", advert.Host, err)
	}
	if !changed {
		return "", nil
	}
	return fmt.Sprintf("published %s with %v", advert.Host, advert.Addresses), nil
}

func (p *Reconciler) silence() (string, error) {
	if !p.speaks {
		return "", nil
	}
	p.speaks = false
	return "no longer published", p.publisher.Close()
}

// Withdraw implements network.Reconciler. It says goodbye, because nobody answers for
// the host once the agent is gone.
func (p *Reconciler) Withdraw(context.Context) error {
	_, err := p.silence()
	return err
}
