// Package eventlog lets a program note events on its host's disk without ever
// waiting for that disk.
//
// Append may be called by whoever decides or acts, the keeper of etcd above all: it
// stamps the event, puts it into a bounded queue and returns. Only Run writes and
// waits for the disk, in a goroutine of its own. So a disk that is full, slow or
// dead delays no step of the two-node protocol; it costs events, the oldest that
// wait first, and their number is noted as soon as something can be written again.
//
// What the protocol itself must not lose is not here: its record, its proofs and
// the confirmations are durable before the step that they allow. An event may be
// lost with the power that fails in the same moment.
//
// It owns the events of one program, /var/lib/holdfast/events/PROGRAM.jsonl. A
// program has one Log.
package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// most is how many events wait at most. A take-over has about a dozen.
	most = 256
	// spacing is between two writes: etcd may be on the same disk, and while a host
	// takes over each sync of ours may delay one of its own.
	spacing = 250 * time.Millisecond
	// retry is between two writes where the first failed.
	retry = 5 * time.Second
	// farewell is how long a program that ends waits for its last events.
	farewell = 2 * time.Second
)

// Options are what a Log works with.
type Options struct {
	// Write makes events durable, or leaves the file as it was.
	Write func([]state.Event) error
	// Boot names the boot and says how long it has lasted.
	Boot func() (id string, uptime time.Duration, err error)
	Now  func() time.Time
	// Hear takes what each write ran into, nil for nothing. It is called by Run.
	Hear func(error)
}

// Log takes events and writes them.
type Log struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex // held for no longer than an event takes to be queued
	waiting []state.Event
	missed  int
}

// New returns a log that writes once it is run.
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

// queue puts events behind those that wait, and drops the oldest of too many.
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

// Run writes until the context ends, and then what waits. A disk that hangs keeps
// a goroutine for good, but not who called.
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

// During runs the log while something is done, and then writes what that noted last.
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
