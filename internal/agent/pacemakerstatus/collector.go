// Package pacemakerstatus keeps the status of the PacemakerCluster. On each of
// two control planes it looks at Pacemaker whenever something happens there, and
// keeps what it saw on the host. The host whose turn it is writes it to the API.
// Package decide/pacemakerstatus decides what is written.
package pacemakerstatus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/site"
)

// Options holds what the collector of a host needs.
type Options struct {
	Site *site.Site
	Log  *slog.Logger
	Now  func() time.Time
}

// The pauses of the loop: events are debounced, an event may precede the change
// that it announces, and failures are tried again.
const (
	debounce          = 150 * time.Millisecond
	minInterval       = 400 * time.Millisecond // the least between two looks
	maxRetryInterval  = time.Second
	retryInterval     = 500 * time.Millisecond
	slowRetryInterval = 5 * time.Second
	unready           = 10 * time.Second // there is nothing to write to yet
	resync            = decide.Heartbeat
	heartbeatInterval = resync - minInterval // a sign of life is in time
	runTimeout        = time.Minute          // for one look and what it writes
)

// Collector keeps the status. Its metrics may be collected at any time.
type Collector struct {
	Options
	host  func() (string, error)
	look  func(ctx context.Context, host string) decide.Input
	watch func(ctx context.Context, loops *loop.Loops, wake func())
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
	wake     loop.Kick

	mu       sync.Mutex
	current  decide.Report
	input    decide.Input
	failover []clusterhealth.Failover
}

// New returns the collector of this host. It does nothing before Run.
func New(o Options) *Collector {
	c := &Collector{
		Options: o, host: host.Name, standIn: lastStandIn, files: files{live: decide.LivePath, kept: decide.KeptPath},
		told: map[string]bool{}, wake: loop.NewKick(), settings: settings{order: loop.NewLatest[order]()},
	}
	keeper := twonode.NewHost(slog.NewLogLogger(o.Log.Handler(), slog.LevelInfo).Writer())
	c.setBack = keeper.SetBack
	self := &observer{log: o.Log, settings: keeper.Settings, taken: keeper.Taken}
	c.look, c.watch, c.api = self.observe, self.watch, accessOf(o.Site, self.peers)
	return c
}

// Run works until the context ends, on a host that is one of two control planes.
// No error ends it, because a status must not end the agent of a host.
func (c *Collector) Run(ctx context.Context, loops *loop.Loops) {
	go c.watch(ctx, loops, c.Wake)
	loops.Run(ctx, c.task(), c.settingsTask(), c.failoverTask())
}

// Wake requests a look at the cluster soon. It never blocks.
func (c *Collector) Wake() { c.wake.Kick() }

// task looks at the cluster. A host without the API's files is not set up yet.
func (c *Collector) task() loop.Task {
	name := ""
	return loop.Task{
		Name: "pacemaker status", Wake: c.wake, Debounce: debounce, Retry: retryInterval, MaxRetry: maxRetryInterval,
		NotYet: isNoAccess, Limit: runTimeout, Spared: true,
		Step: func(ctx context.Context) (loop.Result, error) {
			if name == "" {
				own, err := c.host()
				if err != nil {
					return loop.Result{Again: unready}, fmt.Errorf("name of this host: %w", err)
				}
				name = own
				c.pubbed.moved = c.Now()
				c.set(c.files.read(name), decide.Input{Host: name})
			}
			began := c.Now()
			more, err := c.step(ctx, name)
			return c.next(began, more, err), err
		},
	}
}

// next returns the time of the next run. A run that failed is repeated within
// seconds, so that an API that is back gets the status.
func (c *Collector) next(began time.Time, more bool, err error) loop.Result {
	switch {
	case isNoAccess(err):
		return loop.Result{Again: unready}
	case err != nil:
		return loop.Result{}
	case more:
		return loop.Result{Again: maxRetryInterval}
	}
	pause := max(c.due(), minInterval-c.Now().Sub(began))
	if pause <= 0 {
		pause = -1
	}
	return loop.Result{Again: pause}
}

// due returns how long it is until the status needs a sign of life, or until this
// host checks that another one gives it. Other looks in between postpone neither.
func (c *Collector) due() time.Duration {
	last, every := c.pubbed.read, resync
	if c.Report().Writes {
		last, every = c.pubbed.wrote, heartbeatInterval
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
	c.keepSettings(in, now) // what is different was told
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

// Input returns what this host last saw of Pacemaker.
func (c *Collector) Input() decide.Input {
	_, in := c.seen()
	return in
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
