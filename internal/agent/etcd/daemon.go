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

// Options are what the daemon works with.
type Options struct {
	// Host is this host's node name.
	Host string
	Now  func() time.Time
	Log  func(format string, args ...any)
}

// daemon answers from the first moment; it keeps etcd once it knows the pair.
type daemon struct {
	Options
	kept atomic.Pointer[Keeper]
	bmc  *bmc

	using      sync.Mutex // one start after the other
	parameters podmanetcd.Parameters

	set   chan struct{} // closed when the parameters are known
	again chan struct{} // closed when they changed: the daemon begins anew
}

// keeper is nil until the pair is known; requests come from the first moment.
func (d *daemon) keeper() *Keeper { return d.kept.Load() }

// errAgain ends a daemon whose parameters changed; systemd starts it anew.
var errAgain = errors.New("the parameters changed: beginning anew")

// Serve keeps etcd on this host until the context ends.
func Serve(ctx context.Context, o Options) error {
	d := &daemon{Options: o, set: make(chan struct{}), again: make(chan struct{})}
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return err
	}
	if err := d.remember(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.serve(ctx, state.EtcdSocketPath) })
	group.Go(func() error { return d.keep(ctx) })
	group.Go(func() error {
		select {
		case <-d.again:
			return errAgain
		case <-ctx.Done():
			return nil
		}
	})
	if err := group.Wait(); err != nil && !errors.Is(err, errAgain) && ctx.Err() == nil {
		return err
	}
	return nil
}

// remember takes up the parameters of before.
func (d *daemon) remember() error {
	data, err := os.ReadFile(parametersPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var p podmanetcd.Parameters
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("parameters of etcd in %s: %w; Pacemaker's next start writes them anew", parametersPath, err)
	}
	return d.adopt(p)
}

// adopt prepares the keeper for the pair that the parameters name.
func (d *daemon) adopt(p podmanetcd.Parameters) error {
	k, err := d.assemble(p)
	if err != nil {
		return err
	}
	boot, _, err := k.Observer.Boot()
	if err != nil {
		return err
	}
	k.Start(readWish(boot))
	d.parameters = p
	d.kept.Store(k)
	close(d.set)
	return nil
}

// use takes the parameters of a start. Others than before make the daemon begin
// anew, with etcd left as it is.
func (d *daemon) use(p podmanetcd.Parameters) error {
	d.using.Lock()
	defer d.using.Unlock()
	if d.keeper() != nil && reflect.DeepEqual(p, d.parameters) {
		return nil
	}
	if _, err := p.Peer(d.Host); err != nil {
		return err
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(parametersPath), 0o755); err != nil {
		return err
	}
	if err := host.WriteFileAtomic(parametersPath, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the parameters of etcd: %w", err)
	}
	if d.keeper() == nil {
		return d.adopt(p)
	}
	close(d.again)
	return errAgain
}

// keep waits for the pair and keeps etcd.
func (d *daemon) keep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.set:
	}
	group, ctx := errgroup.WithContext(ctx)
	d.watch(ctx, group)
	group.Go(func() error { return d.keeper().Run(ctx) })
	return group.Wait()
}

// readWish is what Pacemaker asked for in this boot.
func readWish(boot string) member.Wish {
	var w member.Wish
	data, err := os.ReadFile(wishPath)
	if err != nil || json.Unmarshal(data, &w) != nil || w.Boot != boot {
		return member.Wish{Wish: state.EtcdNotAsked, Boot: boot}
	}
	return w
}

func saveWish(w member.Wish) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(wishPath, data, 0o600)
}
