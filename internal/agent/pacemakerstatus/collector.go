// Package pacemakerstatus keeps the status of the PacemakerCluster. On each of
// two control planes it looks at Pacemaker whenever something happens there, and
// keeps what it saw on the host. The host whose turn it is writes it to the API.
// Package decide/pacemakerstatus decides what is written.
package pacemakerstatus

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/pace"
)

// Options holds what the collector of a host needs.
type Options struct {
	Site *site.Site
	Log  io.Writer
	Now  func() time.Time
}

// The pauses of the loop: events are debounced, an event may precede the change
// that it announces, and failures are tried again.
const (
	debounce = 150 * time.Millisecond
	apart    = 400 * time.Millisecond // the least between two looks
	after    = time.Second
	retry    = 500 * time.Millisecond
	slowly   = 5 * time.Second
	unready  = 10 * time.Second // there is nothing to write to yet
	resync   = decide.Heartbeat
	beats    = resync - apart // a sign of life that is written in time
)

// Collector keeps the status. Its metrics may be collected at any time.
type Collector struct {
	Options
	host  func() (string, error)
	look  func(ctx context.Context, host string) decide.Input
	watch func(ctx context.Context, wake func())
	api   access
	// standIn returns the times of the last stand-in's steps, in milliseconds.
	standIn func() map[string]float64
	// setBack restores the settings of this host to those of the table, and
	// Pacemaker's too if the host decides about them.
	setBack  func(ctx context.Context, decides bool) error
	settings settings
	files    files
	told     map[string]bool
	pubbed   publication
	heard    time.Time // when redundancy was last known
	retakes  time.Time // since when Pacemaker has recorded anew what runs; zero while it does not
	wake     chan struct{}
	trouble  pace.Trouble

	mu       sync.Mutex
	current  decide.Report
	input    decide.Input
	failover []clusterhealth.Failover
}

// New returns the collector of this host. It does nothing before Run.
func New(o Options) *Collector {
	c := &Collector{
		Options: o, host: ownName, standIn: lastStandIn, files: files{live: decide.LivePath, kept: decide.KeptPath},
		told: map[string]bool{}, wake: make(chan struct{}, 1),
	}
	c.trouble = pace.Trouble{Logf: c.logf, Now: func() time.Time { return c.Now() }}
	keeper := twonode.NewHost(o.Log)
	c.setBack = keeper.SetBack
	eyes := &eyes{logf: c.logf, settings: keeper.Settings}
	c.look, c.watch, c.api = eyes.look, eyes.watch, accessOf(o.Site, eyes.peers)
	return c
}

// Run works until the context ends, on a host that is one of two control planes.
// No error ends it, because a status must not end the agent of a host.
func (c *Collector) Run(ctx context.Context) {
	name, err := c.host()
	for ; err != nil; name, err = c.host() {
		c.complain(fmt.Errorf("name of this host: %w", err))
		if host.Sleep(ctx, unready) != nil {
			return
		}
	}
	c.pubbed.moved = c.Now()
	c.set(c.files.read(name), decide.Input{Host: name})
	go c.watch(ctx, c.Wake)
	go c.keepFailover(ctx)
	c.loop(ctx, name)
}

// Wake requests a look at the cluster soon. It never blocks.
func (c *Collector) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Collector) loop(ctx context.Context, name string) {
	pause := retry
	for next := time.Duration(0); pace.Wait(ctx, c.wake, next, debounce); {
		began := c.Now()
		more, err := c.step(ctx, name)
		c.complain(err)
		switch {
		case isNoAccess(err):
			next = unready
		case err != nil:
			next, pause = pause, min(2*pause, after) // an API that is back gets the status within seconds
		case more:
			next, pause = after, retry
		default:
			next, pause = c.due(), retry
		}
		next = max(next, apart-c.Now().Sub(began))
	}
}

// due returns how long it is until the status needs a sign of life, or until this
// host checks that another one gives it. Other looks in between postpone neither.
func (c *Collector) due() time.Duration {
	last, every := c.pubbed.read, resync
	if c.Report().Writes {
		last, every = c.pubbed.wrote, beats
	}
	return min(every-c.Now().Sub(last), resync)
}

// step looks once, keeps what it saw, and writes it if that is this host's turn.
// more asks for another look soon: something is different, or not known again
// yet.
func (c *Collector) step(ctx context.Context, name string) (more bool, err error) {
	in := c.look(ctx, name)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	before, last := c.seen()
	now := c.Now()
	in, recalled := c.recall(in, last, now)
	seen := decide.Status(in)
	if decide.Reported(seen.Conditions, decide.Redundant) {
		c.heard = now
	} else {
		seen = decide.Status(in.Patient(before.Status, now.Sub(c.heard)))
	}
	r := decide.Report{Host: name, At: now, Published: before.Published, Status: decide.Timed(seen, &before.Status, now)}
	r.Known = decide.Known(r.Status, before.Known)
	r.TakeOver, r.Lost = before.Follow(in, now)
	changed := !decide.Same(r.Status, before.Status) || r.TakeOver != before.TakeOver || r.Lost != before.Lost
	r.Writes, r.Why = decide.Writes(in, c.silent())
	c.set(r, in)
	keepErr := c.files.write(r, changed)
	err = c.publish(ctx, in, &r)
	if err != nil {
		r.API = err.Error()
	}
	c.keepSettings(ctx, in, now) // the status above shows what is different
	c.set(r, in)
	if keepErr == nil {
		keepErr = c.files.write(r, false)
	}
	if err == nil {
		err = keepErr
	}
	return changed || recalled, err
}

// recall returns the input to use while Pacemaker records anew what runs. The
// next look is soon, because no event announces the end of that.
func (c *Collector) recall(in, last decide.Input, now time.Time) (decide.Input, bool) {
	out, told := in.Recalled(last)
	switch {
	case !told:
		c.retakes = time.Time{}
	case c.retakes.IsZero():
		c.retakes = now
	case now.Sub(c.retakes) >= decide.Retakes:
		return in, false
	}
	return out, told
}

// Report returns what this host knows now.
func (c *Collector) Report() decide.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

func (c *Collector) set(r decide.Report, in decide.Input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.input = r, in
}

// seen returns the report and the input of the last look.
func (c *Collector) seen() (decide.Report, decide.Input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.input
}

// complain logs the errors of the last look, but not missing access: a host
// without the API's files is not set up yet.
func (c *Collector) complain(err error) {
	if !isNoAccess(err) {
		c.trouble.Hear(err)
	}
}

func (c *Collector) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Log, "pacemaker status: "+format+"\n", args...)
}

// publication holds what this host knows of the object in the API.
type publication struct {
	// object is nil if it was not read, or has changed since.
	object *etcdv1.PacemakerCluster
	// at is the time in its status; moved is the last time at which this host saw
	// another one change it, by this host's clock.
	at, moved time.Time
	// read and wrote are the times at which this host last read and wrote it.
	read, wrote time.Time
}
