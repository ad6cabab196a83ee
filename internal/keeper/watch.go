package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// watch starts everything that wakes the keeper: Corosync's membership,
// evidence of a fence, an administrator's confirmation, the answer of the
// peer's BMC. Each is only a hint to look; the keeper decides on what it then
// reads.
func (d *daemon) watch(ctx context.Context, group *errgroup.Group) {
	k := d.keeper()
	group.Go(func() error {
		return d.watchMembers(ctx, func(m state.Fact[state.Membership]) {
			d.members.set(m)
			k.meets(m)
			d.sense.race.setMembership(m, slices.Contains(m.Value.Members, k.Observer.Peer))
			k.Wake()
		})
	})
	group.Go(func() error {
		return lasting(ctx, k.Log, "cannot watch for evidence", func() error {
			return d.watchFiles(ctx, k.Wake, d.files.Path(state.FencedDir), filepath.Dir(d.files.Path(state.EtcdConfirmationPath)))
		})
	})
	group.Go(func() error { return d.bmc.ask(ctx, k.Wake) })
	group.Go(func() error { return d.third.ask(ctx) })
	group.Go(func() error { return d.watchProcess(ctx, k.Wake) })
	d.sense.watch(ctx, group, k.Log)
}

// unseen bounds how long watchProcess may miss a new process of etcd.
const unseen = 500 * time.Millisecond

// watchProcess wakes the keeper as soon as etcd's process ends: its restart in
// place must not wait for the next look.
func (e effects) watchProcess(ctx context.Context, wake func()) error {
	for {
		p, err := e.look(ctx)
		if err == nil && p.Running && e.awaitEnd(ctx, p.PID) == nil {
			wake()
		}
		if err := host.Sleep(ctx, unseen); err != nil {
			return err
		}
	}
}

// meets takes a new membership.
func (k *Keeper) meets(m state.Fact[state.Membership]) {
	k.Observer.SetMembership(m)
	k.Log.Info("membership", "known", m.Known, "members", m.Value.Members, "ring", strconv.FormatUint(m.Value.Ring, 16), "quorate", m.Value.Quorate)
	k.Event(state.MembershipEvent(m))
}

// watchFiles calls wake whenever something appears in one of the folders.
func watchFiles(ctx context.Context, wake func(), dirs ...string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch evidence: %w", err)
	}
	defer func() { _ = w.Close() }()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("watch evidence: %w", err)
		}
		if err := w.Add(dir); err != nil {
			return fmt.Errorf("watch evidence: %w", err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.Events:
			wake()
		case _, open := <-w.Errors: // the loop looks every second anyway
			if !open {
				return errors.New("watch evidence: inotify ended")
			}
		}
	}
}

// lasting repeats do, which should last, a little after it ended. It logs a
// reason only if it differs from the one before. A missing hint, or a missing
// answer to the peer, must not end the care for etcd.
func lasting(ctx context.Context, log *slog.Logger, trouble string, do func() error) error {
	for said := ""; ; {
		err := do()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Warn(trouble+", will retry", "err", err)
		}
		if err := host.Sleep(ctx, retryAfter); err != nil {
			return err
		}
	}
}

// wantsPower reports whether the peer's power state matters: the peer is absent
// and nothing proves yet that it is off.
func (k *Keeper) wantsPower() bool {
	r, _ := k.Report()
	s := r.Snapshot
	return state.Is(s.Pacemaker.Contact, false) && (state.Is(s.Pacemaker.Inert, true) || r.Since > 10*time.Second && r.Verdict.Action != state.EtcdIdle)
}

// listenEvery returns how old the peer's statement may be.
func (k *Keeper) listenEvery() time.Duration {
	r, _ := k.Report()
	if r.Verdict.Action == state.EtcdIdle && r.Snapshot.Uptime-k.lastMove > lively {
		return listen
	}
	return busy / 2
}
