package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// bmc asks the peer's BMC while the answer is wanted.
type bmc struct {
	peer   string
	power  func(ctx context.Context, peer string) (power string, wait time.Duration, err error)
	stale  time.Duration
	wanted func() bool

	mu   sync.Mutex
	said state.Fact[string]
}

// bmcEvery is the pause between two questions to the peer's BMC, unless that refuses
// the account; bmcTime bounds one question, and the previous answer counts for the
// first bmcStale of it.
const (
	bmcEvery = 3 * time.Second
	bmcTime  = fencing.LongestAnswer + 5*time.Second
	bmcStale = 5 * time.Second
)

func (b *bmc) state() state.Fact[string] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said
}

func (b *bmc) set(said state.Fact[string]) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = b.said != said
	b.said = said
	return changed
}

// ask repeats the question until the context ends, and calls changed on each
// change.
func (b *bmc) ask(ctx context.Context, changed func()) error {
	for {
		said, wait := state.Fact[string]{}, time.Duration(0)
		if b.wanted() {
			said, wait = b.question(ctx, changed)
		}
		if b.set(said) {
			changed()
		}
		if err := host.Sleep(ctx, max(bmcEvery, wait)); err != nil {
			return err
		}
	}
}

// question asks once, and returns how long the next question has to wait. If it takes
// long, the previous answer is dropped meanwhile.
func (b *bmc) question(ctx context.Context, changed func()) (said state.Fact[string], wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, bmcTime)
	defer cancel()
	forget := time.AfterFunc(b.stale, func() {
		if b.set(state.Fact[string]{}) {
			changed()
		}
	})
	defer forget.Stop()
	power, wait, err := b.power(ctx, b.peer)
	if err != nil {
		return state.Fact[string]{}, wait
	}
	return state.Known(power), wait
}
