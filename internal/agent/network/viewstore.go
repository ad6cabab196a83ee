package network

import (
	"reflect"
	"sync"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ViewStore holds the view and wakes its followers. Only sources write on it, each
// its own part.
type ViewStore struct {
	mu        sync.Mutex
	view      state.NetworkView
	followers []loop.Kick
	// leavers is the number of those for whom the VIPs leave (Leave).
	leavers int
}

// NewViewStore returns a store with what is known from the start.
func NewViewStore(first state.NetworkView) *ViewStore { return &ViewStore{view: first} }

// View returns the view as it is now. What it refers to never changes.
func (b *ViewStore) View() state.NetworkView {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view
}

// Update changes the view and wakes the followers, unless the view stays the
// same.
func (b *ViewStore) Update(change func(*state.NetworkView)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.view
	change(&next)
	if reflect.DeepEqual(b.view, next) {
		return
	}
	b.view = next
	for _, f := range b.followers {
		f.Kick()
	}
}

// Follow returns a channel that gets a value after a change. Several changes may
// give one value.
func (b *ViewStore) Follow() <-chan struct{} {
	f := loop.NewKick()
	b.Wake(f)
	return f
}

// Wake has a kick given after a change, as Follow does.
func (b *ViewStore) Wake(f loop.Kick) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followers = append(b.followers, f)
}
