package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Dialer connects to a literal address.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Target is one way into the cluster.
type Target struct {
	Name    string
	Address string // host and port
}

// Shape describes the size of a load. The zero value of each field but Targets
// means its default.
type Shape struct {
	Targets []Target
	// Writers is the number of clients that write through each target; default
	// 1.
	Writers int
	// Pause is the time between two operations of a client; default 20 ms.
	Pause time.Duration
	// Timeout bounds one operation; default 1 s.
	Timeout time.Duration
}

func (s Shape) withDefaults() Shape {
	if s.Writers == 0 {
		s.Writers = 1
	}
	if s.Pause == 0 {
		s.Pause = 20 * time.Millisecond
	}
	if s.Timeout == 0 {
		s.Timeout = time.Second
	}
	return s
}

// store is one target of a load: a set of registers. Its operations return what
// is known of their outcome, with their error.
type store interface {
	write(ctx context.Context, key, value string) (revision int64, outcome Outcome, err error)
	read(ctx context.Context, key string) (value string, revision int64, err error)
	// newest returns the revision at which to resume a watch whose last changes
	// are gone, or errLost if that must never happen.
	newest(ctx context.Context) (int64, error)
	// watch passes every change after a revision to see, until the context ends
	// or the watch breaks.
	watch(ctx context.Context, after int64, see func(key, value string, revision int64)) error
	close()
}

// Load is a running set of clients.
type Load struct {
	rec    *Recorder
	shape  Shape
	stores []store
	keys   []string

	writing, watching         sync.WaitGroup
	stopWriting, stopWatching context.CancelFunc
}

// settle bounds the wait at the end of a load for its watches and its last
// reads.
const settle = 30 * time.Second

// start runs writers, one reader and one watch for each store.
func start(ctx context.Context, rec *Recorder, shape Shape, stores []store, prefix string, after int64) *Load {
	l := &Load{rec: rec, shape: shape, stores: stores}
	for i := range max(2, len(stores)*shape.Writers/2) {
		l.keys = append(l.keys, fmt.Sprintf("%s%d", prefix, i))
	}
	var writing, watching context.Context
	writing, l.stopWriting = context.WithCancel(ctx)
	watching, l.stopWatching = context.WithCancel(ctx)
	client := 0
	for i, s := range stores {
		name := shape.Targets[i].Name
		l.watching.Go(func() { l.watch(watching, s, name, after) })
		for range shape.Writers {
			id := client
			l.writing.Go(func() { l.write(writing, s, name, id) })
			client++
		}
		id := client
		l.writing.Go(func() { l.read(writing, s, name, id) })
		client++
	}
	return l
}

// paced calls step repeatedly, with the load's pause between two calls.
func (l *Load) paced(ctx context.Context, step func(n int)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		step(n)
		timer.Reset(l.shape.Pause)
	}
}

// write writes to each key in turn. Its operations may finish when the load
// ends: an interrupted one would be unknown for no reason.
func (l *Load) write(ctx context.Context, s store, name string, id int) {
	l.paced(ctx, func(n int) {
		key := l.keys[(id+n)%len(l.keys)]
		value := fmt.Sprintf("%s%d-%d", key, id, n)
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.shape.Timeout)
		defer cancel()
		o := Op{Client: id, Endpoint: name, Kind: Write, Key: key, Value: value, Start: l.rec.Since()}
		revision, outcome, err := s.write(once, key, value)
		o.End, o.Revision, o.Outcome, o.Error = l.rec.Since(), revision, outcome, text(err)
		l.rec.op(o)
	})
}

func (l *Load) read(ctx context.Context, s store, name string, id int) {
	l.paced(ctx, func(n int) {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.shape.Timeout)
		defer cancel()
		o := Op{Client: id, Endpoint: name, Kind: Read, Key: l.keys[n%len(l.keys)], Outcome: OK, Start: l.rec.Since()}
		var err error
		o.Value, o.Revision, err = s.read(once, o.Key)
		if err != nil {
			o.Outcome, o.Error = Failed, text(err)
		}
		o.End = l.rec.Since()
		l.rec.op(o)
	})
}

// errLost reports that a watch cannot be resumed where it broke.
var errLost = errors.New("the changes since the last one seen are gone")

func (l *Load) watch(ctx context.Context, s store, name string, after int64) {
	see := func(key, value string, revision int64) {
		after = max(after, revision)
		l.rec.event(Event{Watch: name, Key: key, Value: value, Revision: revision, At: l.rec.Since()})
	}
	l.paced(ctx, func(int) {
		err := s.watch(ctx, after, see)
		if ctx.Err() != nil {
			return
		}
		l.rec.broke(name)
		if errors.Is(err, errLost) {
			after = l.skip(ctx, s, name, after)
		}
	})
}

// skip skips the changes that a watch can no longer get.
func (l *Load) skip(ctx context.Context, s store, name string, after int64) int64 {
	newest, err := s.newest(ctx)
	switch {
	case errors.Is(err, errLost):
		// The check will report it as an event that nobody wrote.
		l.rec.event(Event{Watch: name, Value: err.Error(), Revision: after, At: l.rec.Since()})
	case err == nil && newest > after:
		l.rec.skipped(name, Span{From: after + 1, Until: newest})
		return newest
	}
	return after
}

// Stop ends the load. It reads the values stored in the end, and waits for a
// while until the watches have seen the last acknowledged write.
func (l *Load) Stop(ctx context.Context) error {
	l.stopWriting()
	l.writing.Wait()
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	final, err := l.final(ctx)
	l.rec.mu.Lock()
	l.rec.h.Final = final
	l.rec.mu.Unlock()
	l.settleWatches(ctx)
	l.stopWatching()
	l.watching.Wait()
	for _, s := range l.stores {
		s.close()
	}
	return err
}

// final reads every key through any target that answers.
func (l *Load) final(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, key := range l.keys {
		if err := l.finalOf(ctx, key, out); err != nil {
			return nil, fmt.Errorf("read %s in the end: %w", key, err)
		}
	}
	return out, nil
}

func (l *Load) finalOf(ctx context.Context, key string, into map[string]string) error {
	var err error
	for ctx.Err() == nil {
		for _, s := range l.stores {
			once, cancel := context.WithTimeout(ctx, l.shape.Timeout)
			var value string
			value, _, err = s.read(once, key)
			cancel()
			if err == nil {
				into[key] = value
				return nil
			}
		}
		_ = host.Sleep(ctx, l.shape.Pause)
	}
	return errors.Join(err, ctx.Err())
}

// settleWatches waits until each watch has seen the last write. A watch of a
// dead host never does; if that matters, the check finds it.
func (l *Load) settleWatches(ctx context.Context) {
	for ctx.Err() == nil && !l.settled() {
		_ = host.Sleep(ctx, l.shape.Pause)
	}
}

func (l *Load) settled() bool {
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	newest := int64(0)
	for _, o := range l.rec.h.Ops {
		if o.Kind == Write && o.Outcome == OK {
			newest = max(newest, o.Revision)
		}
	}
	seen := map[string]int64{}
	for watch, spans := range l.rec.h.Skipped {
		seen[watch] = spans[len(spans)-1].Until
	}
	for _, e := range l.rec.h.Events {
		seen[e.Watch] = max(seen[e.Watch], e.Revision)
	}
	for _, t := range l.shape.Targets {
		if seen[t.Name] < newest {
			return false
		}
	}
	return true
}

// text shortens an error, because histories hold thousands.
func text(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}
