package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/model/state"
)

// WithoutKeeper looks at a host's etcd, and ends it, without the keeper: for the time
// in which there is none.
type WithoutKeeper struct {
	See func() podmanetcd.Seen
	// End ends etcd and its stand-in.
	End func(context.Context) error
	// Note records for a later keeper that Pacemaker wants etcd stopped.
	Note func() error
}

// OnThisHost returns a WithoutKeeper for this host.
func OnThisHost() WithoutKeeper {
	return WithoutKeeper{See: see(), End: endAlone, Note: func() error { return noteStop(records.Files{}) }}
}

// Confirm reports success for a stop if nothing of ours runs, and otherwise a
// failure with the reason why.
func (a WithoutKeeper) Confirm(why string) podmanetcd.Answer {
	if !a.See().Nothing() {
		return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: why}
	}
	if err := a.Note(); err != nil {
		return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()}
	}
	return podmanetcd.Answer{}
}

// Stop ends what runs. The peer notices that by itself, as after a crash.
func (a WithoutKeeper) Stop(ctx context.Context) podmanetcd.Answer {
	if err := a.Note(); err != nil {
		return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()}
	}
	s := a.See()
	if s.Foreign || s.Nothing() {
		return podmanetcd.Answer{}
	}
	if err := a.End(ctx); err != nil {
		return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: "etcd did not stop: " + err.Error()}
	}
	return a.Confirm("etcd was stopped, but a process still holds its data or a stand-in still votes for it")
}

// see returns a function that looks at this host. What hangs stays unknown.
func see() func() podmanetcd.Seen {
	held := host.Limited("checking the lock of etcd's data", fileTime, func() (bool, error) { return etcd.Locked(state.EtcdDataDir) })
	standIn := host.Limited("looking for a stand-in", fileTime, standingFor)
	return func() podmanetcd.Seen {
		_, err := os.Stat(StaticPodPath)
		s := podmanetcd.Seen{Foreign: !errors.Is(err, fs.ErrNotExist)}
		var both sync.WaitGroup
		both.Go(func() {
			if is, err := held(); err == nil {
				s.Held = state.Known(is)
			}
		})
		both.Go(func() {
			if id, err := standIn(); err == nil {
				s.StandsIn = state.Known(id != 0)
			}
		})
		if p, err := podman.State(context.Background()); err == nil {
			s.Lives = state.Known(p.Running)
		}
		both.Wait()
		return s
	}
}

// endTime bounds both ends together.
const endTime = 25 * time.Second

func endAlone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return errors.Join(etcd.StopStandIn(ctx), podman.Stop(ctx, stopGrace))
}

// noteStop stores Pacemaker's wish as a keeper of this boot would.
func noteStop(files records.Files) error {
	boot, uptime, err := observe.Boot()
	if err == nil {
		err = files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStopped, At: uptime, Boot: boot})
	}
	if err != nil {
		return fmt.Errorf("store Pacemaker's request: %w", err)
	}
	return nil
}
