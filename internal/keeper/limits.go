package keeper

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Limits of the parts of a round that package act does not bound itself.
const (
	lookTime    = 60 * time.Second // a whole look; its parts have their own limits
	publishTime = 5 * time.Second
	hearTime    = 5 * time.Second // to note in memory what was heard
	watchTime   = 5 * time.Second // to look at the process and at its manifest
	killTime    = 10 * time.Second
	restartTime = 45 * time.Second
)

// Limits of single questions of a look. A file that cannot be read in this time
// lies on a disk that hangs.
const (
	fileTime    = 2 * time.Second
	inspectTime = 30 * time.Second // it reads a log of some hundred MB
)

// slack is the time that a step may take beyond its limit before it counts as
// hung: a process that is told to end gets some seconds for it.
const slack = 10 * time.Second

// stint is the present part of the loop, and the time until which it may last.
type stint struct {
	what  string
	until time.Time
}

// within does one part of a round within a limit. It waits even for a part that
// ignores its context, since the effect could come at any later time. Hung then
// names that part, and systemd's watchdog ends this process.
func (k *Keeper) within(ctx context.Context, what string, limit time.Duration, do func(context.Context) error) error {
	k.begin(stint{what, time.Now().Add(limit + slack)})
	defer k.begin(stint{})
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", what, limit))
	defer cancel()
	return do(ctx)
}

func (k *Keeper) begin(s stint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stint = s
}

// Hung returns the part for which the loop takes longer than it may, or nothing
// while the loop makes progress.
func (k *Keeper) Hung() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stint.what == "" || time.Now().Before(k.stint.until) {
		return ""
	}
	return k.stint.what
}

// limited bounds those questions of a look that no context can end: what hangs
// is unknown, and the loop goes on.
func limited(s member.Sources) member.Sources {
	s.Record = host.Limited("reading the record", fileTime, s.Record)
	s.Held = host.Limited("checking the lock of etcd's data", fileTime, s.Held)
	s.StandIn = host.Limited("looking for a stand-in", fileTime, s.StandIn)
	s.Human = host.Limited("reading the administrator's confirmation", fileTime, s.Human)
	if s.Third != nil {
		s.Third = host.Limited("reading the plan's word about a third host", fileTime, s.Third)
	}
	fenced := map[string]func() (state.Fact[state.EtcdFenced], error){}
	ask := s.Fenced
	s.Fenced = func(peer string) (state.Fact[state.EtcdFenced], error) { // only the loop asks
		if fenced[peer] == nil {
			fenced[peer] = host.Limited("reading the evidence of the fence", fileTime, func() (state.Fact[state.EtcdFenced], error) { return ask(peer) })
		}
		return fenced[peer]()
	}
	inspect := s.Inspect
	s.Inspect = func(ctx context.Context) (state.EtcdData, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, inspectTime, fmt.Errorf("examining etcd's data took longer than %s", inspectTime))
		defer cancel()
		return inspect(ctx)
	}
	return s
}
