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

// memoryPath keeps what was seen in this boot.
const memoryPath = "/run/holdfast/etcd/memory.json"

// Options are what the daemon works with.
type Options struct {
	// Host is this host's node name.
	Host string
	// Rename asks for the name again, where the one before is none of the two.
	Rename func() (string, error)
	Now    func() time.Time
	Log    *slog.Logger
}

// daemon answers from the first moment; it keeps etcd once it knows the pair.
type daemon struct {
	Options
	files  records.Files
	socket string
	events *eventlog.Log

	kept    atomic.Pointer[Keeper]
	bmc     *bmc
	alone   Alone
	sense   *senses
	race    atomic.Pointer[race]
	members members
	// prepare makes the keeper of a pair.
	prepare func(state.EtcdParameters) (*Keeper, error)

	using      sync.Mutex // one start after the other
	parameters state.EtcdParameters
	cannot     atomic.Pointer[trouble]

	set   chan struct{} // closed when the parameters are known
	again chan struct{} // closed when they changed: the daemon begins anew
	anew  sync.Once
}

// trouble is why there is no keeper, and since when.
type trouble struct {
	why   string
	since time.Time
}

// keeper is nil until the pair is known; requests come from the first moment.
func (d *daemon) keeper() *Keeper { return d.kept.Load() }

// errAgain ends a daemon whose parameters changed; systemd starts it anew.
var errAgain = errors.New("the parameters changed: beginning anew")

// Serve keeps etcd on this host until the context ends.
func Serve(ctx context.Context, o Options) error {
	d := newDaemon(o, records.Files{}, state.EtcdSocketPath)
	d.prepare, d.alone = d.assemble, OnThisHost() //nolint:contextcheck // what takes no context reads /proc
	d.events = eventlog.OnThisHost(state.EtcdEvents, d.Now, d.Log)
	if err := d.events.During(ctx, d.run); err != nil && !errors.Is(err, errAgain) && ctx.Err() == nil {
		return err
	}
	return nil
}

func newDaemon(o Options, files records.Files, socket string) *daemon {
	return &daemon{Options: o, files: files, socket: socket, set: make(chan struct{}), again: make(chan struct{})}
}

// run answers, whatever else works: who cannot keep etcd says why.
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

// hung is what the keeper's loop does for longer than it may.
func (d *daemon) hung() string {
	if d.keeper() == nil {
		return ""
	}
	return d.keeper().Hung()
}

// remember takes up the parameters of before, where there are any.
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
		return d.troubled(err)
	}
	k.Start(d.wish(boot))
	k.report.At = d.Now() // nobody looked before
	d.parameters = p
	d.kept.Store(k)
	d.cannot.Store(nil)
	close(d.set)
	return nil
}

// troubled notes why there is no keeper, and returns it.
func (d *daemon) troubled(err error) error {
	last := d.cannot.Load()
	if last == nil || last.why != err.Error() {
		now := trouble{why: err.Error(), since: d.Now()}
		if last != nil {
			now.since = last.since
		}
		d.cannot.Store(&now)
		d.Log.Error("etcd cannot be kept on this host", "err", err)
	}
	return err
}

// use takes the parameters of a start, and keeps them for the time without
// Pacemaker. Others than before make the daemon begin anew, with etcd left as it
// is: again is true then.
func (d *daemon) use(p state.EtcdParameters) (again bool, err error) {
	d.using.Lock()
	defer d.using.Unlock()
	if d.keeper() != nil && reflect.DeepEqual(p, d.parameters) {
		return false, nil
	}
	if d.keeper() != nil {
		if _, err := p.Peer(d.Host); err != nil {
			return false, fmt.Errorf("%w; etcd is kept by the parameters of before", err)
		}
	}
	if err := d.files.WriteParameters(p); err != nil {
		return false, fmt.Errorf("keep the parameters of etcd: %w", err)
	}
	if d.keeper() == nil {
		return false, d.adopt(p)
	}
	return true, nil
}

// beginAnew ends this daemon once it has answered, for systemd to start it.
func (d *daemon) beginAnew() { d.anew.Do(func() { close(d.again) }) }

// retry is how soon a daemon that cannot keep etcd tries again: what it lacks,
// a certificate say, may be there by then.
const retry = 2 * time.Second

// await returns when the pair is known, or false with the context's end.
func (d *daemon) await(ctx context.Context) bool {
	for {
		timer := time.NewTimer(retry)
		if d.remember() == nil {
			timer.Stop() // a start tells what comes next
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
		return nil // it was asked to end
	}
	group, ctx := errgroup.WithContext(ctx)
	d.watch(ctx, group)
	group.Go(func() error { return d.keeper().Run(ctx) })
	return group.Wait()
}

// wish is what Pacemaker asked for in this boot. Where no note of it is left, as
// after somebody cleaned /run, an etcd that lives says it: nobody starts it but
// for Pacemaker.
func (d *daemon) wish(boot string) state.EtcdWishNote {
	w := d.files.Wish(boot)
	if w.Wish == state.EtcdNotAsked && state.Is(d.alone.See().Lives, true) {
		w.Wish = state.EtcdStarted
	}
	return w
}
