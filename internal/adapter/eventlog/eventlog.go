// Package eventlog lets a program note events on its host's disk without ever
// waiting for that disk.
//
// Whoever decides or acts may call Append, above all the etcd keeper: it stamps the
// event, puts it into a bounded queue and returns. Only Run writes and waits for the
// disk, in a goroutine of its own. So a full, slow or dead disk delays no step of
// the two-node protocol. It costs events, the oldest waiting ones first, and their
// number is noted as soon as something can be written again.
//
// Data that the protocol must not lose are kept elsewhere: its record, its proofs
// and the confirmations are durable before the step that they allow. An event may be
// lost if the power fails at the same moment.
//
// A Log owns the events of one program, /var/lib/holdfast/events/PROGRAM.jsonl. A
// program has one Log.
package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// most bounds the number of waiting events. A take-over has about a dozen.
	most = 256
	// spacing is the pause between two writes: etcd may be on the same disk, and
	// while a host takes over, each sync of ours may delay one of etcd's.
	spacing = 250 * time.Millisecond
	// retry is the pause after a write that failed.
	retry = 5 * time.Second
	// farewell is how long a program that ends waits for its last events.
	farewell = 2 * time.Second
)

// Options are the inputs of a Log.
type Options struct {
	// Write makes events durable, or leaves the file unchanged.
	Write func([]state.Event) error
	// Boot returns the id of the boot and the time since it began.
	Boot func() (id string, uptime time.Duration, err error)
	Now  func() time.Time
	// Hear takes the result of each write, nil for success. Run calls it.
	Hear func(error)
}

// Log queues events and writes them.
type Log struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex // held only for as long as it takes to queue an event
	waiting []state.Event
	missed  int
}

// New returns a log; it writes nothing until Run is called.
func New(o Options) *Log { return &Log{o: o, wake: make(chan struct{}, 1)} }

// Append takes an event that happened now. It does not wait for the disk.
func (l *Log) Append(e state.Event) {
	e = l.stamped(e).Bounded()
	l.mu.Lock()
	l.queue(e)
	l.mu.Unlock()
	l.kick()
}

func (l *Log) stamped(e state.Event) state.Event {
	e.At = l.o.Now().UTC()
	if boot, up, err := l.o.Boot(); err == nil {
		e.Boot, e.Up = boot, up
	}
	return e
}

// queue appends events to those that wait, and drops the oldest if there are too
// many.
func (l *Log) queue(events ...state.Event) {
	l.waiting = append(l.waiting, events...)
	if n := len(l.waiting) - most; n > 0 {
		l.waiting = append([]state.Event(nil), l.waiting[n:]...)
		l.missed += n
	}
}

func (l *Log) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run writes until the context ends, and then writes what still waits. A disk that
// hangs blocks a goroutine for good, but not the caller.
func (l *Log) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.keep(ctx)
	}()
	<-ctx.Done()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// During runs the log while do runs, and afterwards writes the last events of do.
func (l *Log) During(ctx context.Context, do func(context.Context) error) error {
	log, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { l.Run(log) })
	defer running.Wait()
	defer end()
	return do(ctx)
}

func (l *Log) keep(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		pause := spacing
		err := l.flush()
		l.o.Hear(err)
		if err != nil {
			pause = retry
			l.kick()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	l.o.Hear(l.flush())
}

// flush writes what waits. What could not be written waits again.
func (l *Log) flush() error {
	l.mu.Lock()
	events, missed := l.waiting, l.missed
	l.waiting, l.missed = nil, 0
	l.mu.Unlock()
	if len(events) == 0 {
		return nil
	}
	lines := events
	if missed > 0 {
		gap := state.Event{Boot: events[0].Boot, Up: events[0].Up, At: events[0].At, Kind: state.EventMissed, Count: missed}
		lines = append([]state.Event{gap}, events...)
	}
	err := l.o.Write(lines)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	later := l.waiting
	l.waiting, l.missed = nil, l.missed+missed
	l.queue(append(events, later...)...)
	return err
}
