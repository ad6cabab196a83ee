package fence

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
)

const (
	// wordInterval is the time between two questions whether an administrator has
	// confirmed that the target is off. wordTime bounds one question, and wordAge
	// the age of the report that answers it.
	wordInterval = time.Second
	wordTime     = time.Second
	wordAge      = 30 * time.Second
	// wordPause is the time that a fence waits before it ends because of a
	// confirmation. Pacemaker retries at once and gives up after some tries,
	// unless it learns of the confirmation too.
	wordPause = 2 * time.Second
)

// confirmed reports whether an administrator has confirmed in this boot that the
// target is off, and the target has not joined since. If the etcd keeper does
// not answer, the fence goes on: one power cycle too many does less harm than
// one too few.
func (a *Agent) confirmed(ctx context.Context, target string) bool {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	r, err := a.etcd(ctx)
	return err == nil && r.Snapshot.Peer == target && a.Now().Sub(r.At) < wordAge && etcdmember.Confirmed(r.Snapshot)
}

// word asks for a confirmation at intervals, and always right before the
// power-off. It does not ask in a fence by hand, which is meant as it is.
func (f *attempt) word(ctx context.Context, now bool) bool {
	if !f.byHand && !f.gaveWay && (now || time.Since(f.askedWord) >= wordInterval) {
		f.gaveWay, f.askedWord = f.confirmed(ctx, f.dev.Target), time.Now()
	}
	return f.gaveWay
}

// giveWay delays the end of a fence that ends because of a confirmation.
func (f *attempt) giveWay(ctx context.Context) {
	if f.gaveWay {
		_ = host.Sleep(ctx, f.wordPause) // the end of the context ends the fence too
	}
}
