package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Timing of the question how far the third host's etcd is, which a plan brings.
const (
	thirdEvery = 300 * time.Millisecond
	thirdLimit = time.Second
	// thirdStale is the age at which an answer counts no more.
	thirdStale = 2 * time.Second
)

// thirdLog measures how much of this host's log the etcd of a third host lacks. etcd tells nobody but
// its leader's raft, so both are asked for their index, the third one first: what is written in between
// counts as lacking.
type thirdLog struct {
	// applied asks an etcd which member it is, and up to which entry it has applied the log.
	applied func(ctx context.Context, clientURL string) (state.MemberID, uint64, error)
	// own returns the index of this host's log at the last look, zero without one.
	own func() uint64
	// wake ends the rest of a loop that asks nobody; a test may leave it out.
	wake chan struct{}

	mu   sync.Mutex
	word state.EtcdThirdWord // zero while nobody wants to know
	has  uint64
	at   time.Time // of the last answer, zero without one
}

// behind returns how many entries the third member lacks, unknown without a recent answer of that very
// member.
func (l *thirdLog) behind(word state.EtcdThirdWord) state.Fact[uint64] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if word != l.word {
		l.word, l.at = word, time.Time{}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	own := l.own()
	if l.at.IsZero() || time.Since(l.at) > thirdStale || own == 0 {
		return state.Fact[uint64]{}
	}
	return state.Known(own - min(own, l.has))
}

// ask repeats the question until the context ends. It rests while no plan's word names a member.
func (l *thirdLog) ask(ctx context.Context) error {
	for {
		if l.once(ctx) {
			if err := host.Sleep(ctx, thirdEvery); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
		}
	}
}

// once asks once, and reports whether there is somebody to ask.
func (l *thirdLog) once(ctx context.Context) bool {
	l.mu.Lock()
	word := l.word
	l.mu.Unlock()
	if word.Member == 0 || !word.Address.IsValid() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, thirdLimit)
	defer cancel()
	began := time.Now()
	id, index, err := l.applied(ctx, etcdpod.ClientURL(word.Address))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && id == word.Member && word == l.word {
		l.has, l.at = index, began
	}
	return true
}
