// Package status gathers the known facts of a cluster: from its API, and from
// hosts, which need no API. It asks all sources in parallel, waits for none of
// them longer than its limit, and changes nothing. Package decide/standing turns
// the facts into a view.
package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

// Limit bounds the time of the sources, and membersLimit that of etcd itself
// afterwards: a user waits two seconds at most.
const (
	Limit        = 1300 * time.Millisecond
	membersLimit = 500 * time.Millisecond
	// Patience bounds the time of the sources where none has told anything by Limit. An
	// API on two slow cores takes several seconds while all pods start (measured 2026-11-27
	// in the lab); that nothing is known would then be no answer.
	Patience = 8 * time.Second
)

// Source provides facts about a cluster. It reports failures in its facts: it
// has no other errors.
type Source interface {
	// Gather returns the facts of this source. The context ends with the limit.
	Gather(ctx context.Context) standing.Facts
	// TimedOut returns the entry for a source that has not answered by the limit.
	TimedOut(limit time.Duration) standing.Source
}

// Gatherer asks sources. If two report the same fact, the earlier source
// counts.
type Gatherer struct {
	Sources []Source
	// Members asks etcd itself about its members; nil if that is not possible.
	Members func(ctx context.Context, f standing.Facts) map[string]standing.Member
	Now     func() time.Time
	// Limit bounds the sources; zero means the default.
	Limit time.Duration
	// Waits is called before the sources are asked again, because none told anything of a
	// host in time; they then have Patience. Nil asks them only once.
	Waits func()
}

// Gather asks all sources, and merges the facts of those that answered in time.
func (g *Gatherer) Gather(ctx context.Context) standing.Facts {
	limit := g.Limit
	if limit == 0 {
		limit = Limit
	}
	parts, late := g.ask(ctx, limit)
	if g.Waits != nil && late && !slices.ContainsFunc(parts, tellsOfHosts) {
		g.Waits()
		parts, _ = g.ask(ctx, Patience)
	}
	f := standing.Merge(parts...)
	f.Now = g.clock(parts)
	if g.Members != nil {
		ctx, cancel := context.WithTimeout(ctx, membersLimit)
		defer cancel()
		f = standing.Merge(asked(g.Members(ctx, f), f.Now), f)
	}
	return f
}

// tellsOfHosts reports whether a source listed the hosts or told of one.
func tellsOfHosts(f standing.Facts) bool { return len(f.Hosts) > 0 || f.Nodes.Known }

// clock returns the time of this host if a host was asked, otherwise the API's.
func (g *Gatherer) clock(parts []standing.Facts) time.Time {
	now := g.Now()
	for _, p := range parts {
		for _, s := range p.Sources {
			switch {
			case s.Kind != standing.FromAPI:
				return g.Now()
			case s.Failed == "" && !p.Now.IsZero():
				now = p.Now
			}
		}
	}
	return now
}

// ask returns in time even if a source ignores its context, and reports whether the time
// ended before all had answered.
func (g *Gatherer) ask(ctx context.Context, limit time.Duration) (parts []standing.Facts, late bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex
	parts = make([]standing.Facts, len(g.Sources))
	for i, s := range g.Sources {
		parts[i].Sources = []standing.Source{s.TimedOut(limit)}
	}
	var group sync.WaitGroup
	for i, s := range g.Sources {
		group.Go(func() {
			told := s.Gather(ctx)
			mu.Lock()
			defer mu.Unlock()
			parts[i] = told
		})
	}
	all := make(chan struct{})
	go func() { group.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
		<-grace(all)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(parts), errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// graceTime is the extra time for sources that report their own time-out.
const graceTime = 100 * time.Millisecond

func grace(all <-chan struct{}) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		timer := time.NewTimer(graceTime)
		defer timer.Stop()
		select {
		case <-all:
		case <-timer.C:
		}
	}()
	return out
}

// asked returns facts with the members that etcd itself reported.
func asked(members map[string]standing.Member, now time.Time) standing.Facts {
	f := standing.Facts{Now: now}
	for name, m := range members {
		f.Hosts = append(f.Hosts, standing.Host{Name: name, ControlPlane: true, Member: standing.Know(m, "etcd", now)})
	}
	return f
}
