package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/observe/member"
	"github.com/holdfast/holdfast/internal/state"
)

// Paths of the daemon's own files.
const (
	// parametersPath keeps what Pacemaker's configuration said last: a host that
	// waits for its peer has no Pacemaker to ask.
	parametersPath = "/var/lib/holdfast/etcd/parameters.json"
	// runDir ends with the boot, as all that is in it.
	runDir     = "/run/holdfast/etcd"
	wishPath   = runDir + "/wish.json"
	memoryPath = runDir + "/memory.json"
)

// places are where the daemon's own files lie.
type places struct{ parameters, wish, socket string }

var onHost = places{parametersPath, wishPath, state.EtcdSocketPath}

// Options are what the daemon works with.
type Options struct {
	// Host is this host's node name.
	Host string
	// Rename asks for the name again, where the one before is none of the two.
	Rename func() (string, error)
	Now    func() time.Time
	Log    func(format string, args ...any)
}

// daemon answers from the first moment; it keeps etcd once it knows the pair.
type daemon struct {
	Options
	places
	kept  atomic.Pointer[Keeper]
	bmc   *bmc
	alone Alone
	sense *senses
	race  atomic.Pointer[race]
	// prepare makes the keeper of a pair.
	prepare func(podmanetcd.Parameters) (*Keeper, error)

	using      sync.Mutex // one start after the other
	parameters podmanetcd.Parameters
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
	d := newDaemon(o, onHost)
	d.prepare, d.alone = d.assemble, OnThisHost() //nolint:contextcheck // what takes no context reads /proc
	if err := d.run(ctx); err != nil && !errors.Is(err, errAgain) && ctx.Err() == nil {
		return err
	}
	return nil
}

func newDaemon(o Options, p places) *daemon {
	return &daemon{Options: o, places: p, set: make(chan struct{}), again: make(chan struct{})}
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
	data, err := os.ReadFile(d.places.parameters)
	if errors.Is(err, fs.ErrNotExist) {
		d.cannot.Store(nil)
		return nil
	}
	if err != nil {
		return d.troubled(err)
	}
	p, err := podmanetcd.Decode(data)
	if err != nil {
		return d.troubled(fmt.Errorf("%s: %w; Pacemaker's next start writes them anew", d.places.parameters, err))
	}
	return d.adopt(p)
}

// adopt prepares the keeper for the pair that the parameters name.
func (d *daemon) adopt(p podmanetcd.Parameters) error {
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
		d.Log("etcd cannot be kept on this host: %v", err)
	}
	return err
}

// use takes the parameters of a start, and keeps them for the time without
// Pacemaker. Others than before make the daemon begin anew, with etcd left as it
// is: again is true then.
func (d *daemon) use(p podmanetcd.Parameters) (again bool, err error) {
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
	if err := d.store(p); err != nil {
		return false, fmt.Errorf("keep the parameters of etcd: %w", err)
	}
	if d.keeper() == nil {
		return false, d.adopt(p)
	}
	return true, nil
}

func (d *daemon) store(p podmanetcd.Parameters) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.places.parameters), 0o755); err != nil {
		return err
	}
	return host.WriteFileAtomic(d.places.parameters, append(data, '\n'), 0o644)
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
func (d *daemon) wish(boot string) member.Wish {
	w := d.readWish(boot)
	if w.Wish == state.EtcdNotAsked && state.Is(d.alone.See().Lives, true) {
		w.Wish = state.EtcdStarted
	}
	return w
}

// readWish is what was noted of Pacemaker's wish in this boot.
func (p places) readWish(boot string) member.Wish {
	var w member.Wish
	data, err := os.ReadFile(p.wish)
	if err != nil || json.Unmarshal(data, &w) != nil || w.Boot != boot {
		return member.Wish{Wish: state.EtcdNotAsked, Boot: boot}
	}
	return w
}

func (p places) saveWish(w member.Wish) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.wish), 0o700); err != nil {
		return err
	}
	return host.WriteFileAtomic(p.wish, data, 0o600)
}
