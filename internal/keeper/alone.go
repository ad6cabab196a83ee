package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
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
func OnThisHost() WithoutKeeper { return hostEffects().withoutKeeper(records.Files{}) }

func (e effects) withoutKeeper(files records.Files) WithoutKeeper {
	return WithoutKeeper{See: e.see(files), End: e.endAlone, Note: func() error { return e.noteStop(files) }}
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
func (e effects) see(files records.Files) func() podmanetcd.Seen {
	held := host.Limited("checking the lock of etcd's data", fileTime, func() (bool, error) { return e.locked(files.Path(state.EtcdDataDir)) })
	standIn := host.Limited("looking for a stand-in", fileTime, e.standingFor)
	return func() podmanetcd.Seen {
		_, err := os.Stat(files.Path(StaticPodPath))
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
		if p, err := e.look(context.Background()); err == nil {
			s.Lives = state.Known(p.Running)
		}
		both.Wait()
		return s
	}
}

// endTime bounds both ends together.
const endTime = 25 * time.Second

func (e effects) endAlone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return errors.Join(e.stopStandIn(ctx), e.stop(ctx, stopGrace))
}

// noteStop stores Pacemaker's wish as a keeper of this boot would.
func (e effects) noteStop(files records.Files) error {
	boot, uptime, err := e.boot()
	if err == nil {
		err = files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStopped, At: uptime, Boot: boot})
	}
	if err != nil {
		return fmt.Errorf("store Pacemaker's request: %w", err)
	}
	return nil
}
