package fence

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
)

const (
	// wordInterval is between two questions whether a person has confirmed that
	// the target is off, wordTime bounds one, and wordAge the look that the
	// answer may be made from.
	wordInterval = time.Second
	wordTime     = time.Second
	wordAge      = 30 * time.Second
	// wordPause is how long a fence that gives way to a person's word takes to
	// say so: Pacemaker tries again at once, and gives up after some tries, until
	// it is told too.
	wordPause = 2 * time.Second
)

// confirmed reports whether a person has confirmed that the target is off, in
// this boot, and the target has not joined since. Where the agent of etcd cannot
// say so the fence goes on: one power cycle too many does less harm than one
// too few.
func (a *Agent) confirmed(ctx context.Context, target string) bool {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	r, err := a.etcd(ctx)
	return err == nil && r.Snapshot.Peer == target && a.Now().Sub(r.At) < wordAge && etcdmember.Confirmed(r.Snapshot)
}

// word asks now and then, and always right before the power would be cut. Who
// has a host fenced by hand means it.
func (f *attempt) word(ctx context.Context, now bool) bool {
	if !f.byHand && !f.gaveWay && (now || time.Since(f.askedWord) >= wordInterval) {
		f.gaveWay, f.askedWord = f.confirmed(ctx, f.dev.Target), time.Now()
	}
	return f.gaveWay
}

// giveWay ends a fence for a person's word.
func (f *attempt) giveWay(ctx context.Context) {
	if f.gaveWay {
		_ = host.Sleep(ctx, f.wordPause) // the end of the context ends the fence too
	}
}
