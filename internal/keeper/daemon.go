package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// memoryPath is the file for what was seen in this boot.
const memoryPath = "/run/holdfast/etcd/memory.json"

// Options are the daemon's inputs.
type Options struct {
	// Host is this host's node name.
	Host string
	// Rename asks for the name again if Host is neither of the pair's two
	// names.
	Rename func() (string, error)
	Now    func() time.Time
	Log    *slog.Logger
}

// daemon answers requests from its start, and keeps etcd once it knows the
// pair.
type daemon struct {
	Options
	effects
	files  records.Files
	socket string
	events *eventlog.Log

	kept    atomic.Pointer[Keeper]
	bmc     *bmc
	alone   WithoutKeeper
	sense   *senses
	third   *thirdLog
	race    atomic.Pointer[race]
	members members
	// prepare creates the keeper of a pair.
	prepare func(state.EtcdParameters) (*Keeper, error)

	using      sync.Mutex // one change of the parameters at a time
	parameters state.EtcdParameters
	cannot     atomic.Pointer[trouble]

	set   chan struct{} // closed once the parameters are known
	again chan struct{} // closed once they changed: the daemon restarts
	anew  sync.Once
}

// trouble holds the reason why there is no keeper, and since when.
type trouble struct {
	why   string
	since time.Time
}

// keeper returns nil until the pair is known; requests may come before that.
func (d *daemon) keeper() *Keeper { return d.kept.Load() }

// errAgain ends a daemon whose parameters changed; systemd restarts it.
var errAgain = errors.New("the parameters changed: restarting")

// Serve keeps etcd on this host until the context ends.
func Serve(ctx context.Context, o Options) error {
	d := newDaemon(o, hostEffects(), records.Files{}, state.EtcdSocketPath) //nolint:contextcheck // what takes no context reads /proc
	d.events = eventlog.OnThisHost(state.EtcdEvents, d.Now, d.Log)
	if err := d.events.During(ctx, d.run); err != nil && !errors.Is(err, errAgain) && ctx.Err() == nil {
		return err
	}
	return nil
}

func newDaemon(o Options, e effects, files records.Files, socket string) *daemon {
	d := &daemon{
		Options: o, effects: e, files: files, socket: socket, alone: e.withoutKeeper(files),
		set: make(chan struct{}), again: make(chan struct{}),
	}
	d.prepare = d.assemble
	return d
}

// run answers requests whatever else fails: a daemon that cannot keep etcd says
// why.
func (d *daemon) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.serve(ctx, d.socket) })
	group.Go(func() error { return d.keep(ctx) })
	if every, watched := host.WatchdogInterval(); watched {
		group.Go(func() error {
			return host.Watchdog(ctx, every, d.hung, func() error { return host.Notify("WATCHDOG=1") }, d.Log)
		})
	}
	group.Go(func() error {
		select {
		case <-d.again:
			return errAgain
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// hung returns the step for which the keeper's loop takes longer than it may,
// empty for none.
func (d *daemon) hung() string {
	if d.keeper() == nil {
		return ""
	}
	return d.keeper().Hung()
}

// remember adopts the stored parameters, if there are any.
func (d *daemon) remember() error {
	d.using.Lock()
	defer d.using.Unlock()
	if d.keeper() != nil {
		return nil
	}
	p, err := d.files.Parameters()
	if err != nil {
		return d.troubled(err)
	}
	if !p.Known {
		d.cannot.Store(nil)
		return nil
	}
	return d.adopt(p.Value)
}

// adopt prepares the keeper for the pair that the parameters name.
func (d *daemon) adopt(p state.EtcdParameters) error {
	if _, err := p.Peer(d.Host); err != nil && d.Rename != nil {
		if name, err := d.Rename(); err == nil {
			d.Host = name
		}
	}
	k, err := d.prepare(p)
	if err != nil {
		return d.troubled(err)
	}
	boot, _, err := k.Observer.Boot()
	if err != nil {
		if k.Close != nil {
			err = errors.Join(err, k.Close())
		}
		return d.troubled(err)
	}
	k.Start(d.wish(boot))
	k.report.At = d.Now() // no look happened before
	d.parameters = p
	d.kept.Store(k)
	d.cannot.Store(nil)
	close(d.set)
	return nil
}

// troubled stores the reason why there is no keeper, and returns it.
func (d *daemon) troubled(err error) error {
	last := d.cannot.Load()
	if last == nil || last.why != err.Error() {
		now := trouble{why: err.Error(), since: d.Now()}
		if last != nil {
			now.since = last.since
		}
		d.cannot.Store(&now)
		d.Log.Error("the etcd keeper cannot work on this host", "err", err)
	}
	return err
}

// use takes the parameters of a start, and stores them for the time without
// Pacemaker. If they differ from those in use, again is true: the daemon has to
// restart, and etcd stays as it is.
func (d *daemon) use(p state.EtcdParameters) (again bool, err error) {
	d.using.Lock()
	defer d.using.Unlock()
	if d.keeper() != nil && reflect.DeepEqual(p, d.parameters) {
		return false, nil
	}
	if d.keeper() != nil {
		if _, err := p.Peer(d.Host); err != nil {
			return false, fmt.Errorf("%w; the previous parameters of etcd stay in use", err)
		}
	}
	if err := d.files.WriteParameters(p); err != nil {
		return false, fmt.Errorf("store the parameters of etcd: %w", err)
	}
	if d.keeper() == nil {
		return false, d.adopt(p)
	}
	return true, nil
}

// beginAnew ends this daemon after it has answered, so that systemd restarts
// it.
func (d *daemon) beginAnew() { d.anew.Do(func() { close(d.again) }) }

// retry is the pause after which a daemon that cannot keep etcd tries again:
// what it lacks, for example a certificate, may be there by then.
const retry = 2 * time.Second

// await returns true once the pair is known, or false if the context ends
// first.
func (d *daemon) await(ctx context.Context) bool {
	for {
		timer := time.NewTimer(retry)
		if d.remember() == nil {
			timer.Stop() // no retry is needed: only a start brings parameters
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-d.set:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
}

// keep waits for the pair and keeps etcd.
func (d *daemon) keep(ctx context.Context) error {
	if !d.await(ctx) {
		return nil // the daemon was asked to end
	}
	group, ctx := errgroup.WithContext(ctx)
	d.watch(ctx, group)
	group.Go(func() error { return d.keeper().Run(ctx) })
	return group.Wait()
}

// wish returns what Pacemaker asked for in this boot. If no note of it is left,
// for example after somebody cleaned /run, a living etcd proves that it was to
// start: only Pacemaker has it started.
func (d *daemon) wish(boot string) state.EtcdWishNote {
	w := d.files.Wish(boot)
	if w.Wish == state.EtcdNotAsked && state.Is(d.alone.See().Lives, true) {
		w.Wish = state.EtcdStarted
	}
	return w
}
