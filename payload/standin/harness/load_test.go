package harness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// prefix is the prefix of the load's keys.
const prefix = "load/"

// full is the time for which the writers go on without a pause after the
// survivor acknowledged its first write. The wait for the removal, which
// follows, needs writers but not the whole processor, so that 200 repetitions
// of each case fit into a session.
const full = 200 * time.Millisecond

// load writes new keys, without a pause around the failure, and records which
// writes were acknowledged.
type load struct {
	target atomic.Pointer[clientv3.Client]
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	acked map[string]int64
	// first is the time of the first acknowledgement after since.
	since, first time.Time
}

// startLoad starts writers against a host.
func startLoad(t *testing.T, h *host, writers int, run string) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, acked: map[string]int64{}}
	l.target.Store(h.client)
	for w := range writers {
		l.wg.Go(func() { l.write(ctx, fmt.Sprintf("%s%s/%d", prefix, run, w)) })
	}
	return l
}

func (l *load) write(ctx context.Context, base string) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s/%d", base, n)
		try, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		r, err := l.target.Load().Put(try, key, key)
		cancel()
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		l.note(key, r.Header.Revision)
		if l.past(full) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (l *load) note(key string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[key] = revision
	if l.first.IsZero() && !l.since.IsZero() {
		l.first = time.Now()
	}
}

// move sends the writers to another host, and starts timing its first
// acknowledgement.
func (l *load) move(h *host) {
	l.mu.Lock()
	l.since, l.first = time.Now(), time.Time{}
	l.mu.Unlock()
	l.target.Store(h.client)
}

// probe starts a write every 10 ms until one is acknowledged. It does not wait
// for one before the next, because a write that came too early may hang.
func (l *load) probe(t *testing.T, base string) {
	l.wg.Go(func() {
		for n := 0; l.took() < 0 && n < 2000; n++ {
			l.wg.Go(func() { l.once(t.Context(), fmt.Sprintf("%s%s/probe/%d", prefix, base, n)) })
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func (l *load) once(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if r, err := l.target.Load().Put(ctx, key, key); err == nil {
		l.note(key, r.Header.Revision)
	}
}

// took returns the time from move to the first acknowledgement; negative if
// there was none.
func (l *load) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first.Sub(l.since)
}

// past reports whether the survivor's first acknowledgement is longer ago than
// d.
func (l *load) past(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.first.IsZero() && time.Since(l.first) > d
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// events is a watch that runs during the whole test.
type events struct {
	from    int64
	cancel  context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	seen    map[string]int64
	top     int64
	problem string
}

func watch(t *testing.T, h *host) *events {
	t.Helper()
	from := h.status(t).Header.Revision + 1
	ctx, cancel := context.WithCancel(t.Context())
	e := &events{from: from, cancel: cancel, done: make(chan struct{}), seen: map[string]int64{}}
	responses := h.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	<-responses
	go func() {
		defer close(e.done)
		for r := range responses {
			e.note(r)
		}
	}()
	return e
}

func (e *events) note(r clientv3.WatchResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := r.Err(); err != nil && e.problem == "" && !r.Canceled {
		e.problem = err.Error()
	}
	for _, ev := range r.Events {
		if ev.Kv.ModRevision <= e.top && e.seen[string(ev.Kv.Key)] == 0 {
			e.problem = fmt.Sprintf("the watch went back from revision %d to %d", e.top, ev.Kv.ModRevision)
		}
		e.seen[string(ev.Kv.Key)] = ev.Kv.ModRevision
		e.top = max(e.top, ev.Kv.ModRevision)
	}
}

// verdict holds the result of the checks.
type verdict struct{ acked, lost, missed int }

// check compares the acknowledged and the watched writes with the stored keys.
func check(t *testing.T, h *host, l *load, e *events) verdict {
	t.Helper()
	present := read(t, h)
	v := verdict{acked: len(l.acked)}
	for key, revision := range l.acked {
		if present[key] != revision {
			v.lost++
		}
	}
	v.missed = e.missing(present)
	e.cancel()
	<-e.done
	if e.problem != "" {
		t.Error(e.problem)
	}
	return v
}

// read returns the keys of the load and their revisions.
func read(t *testing.T, h *host) map[string]int64 {
	t.Helper()
	present := map[string]int64{}
	within(t, "read all", 20*time.Second, func(ctx context.Context) error {
		r, err := h.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err == nil {
			for _, kv := range r.Kvs {
				present[string(kv.Key)] = kv.ModRevision
			}
		}
		return err
	})
	return present
}

// missing counts the keys that exist but that the watch never saw. It gives the
// last ones a moment to arrive.
func (e *events) missing(present map[string]int64) int {
	deadline := time.Now().Add(5 * time.Second)
	for {
		n := e.absent(present)
		if n == 0 || time.Now().After(deadline) {
			return n
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (e *events) absent(present map[string]int64) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for key, revision := range present {
		if revision >= e.from && e.seen[key] != revision {
			n++
		}
	}
	return n
}
