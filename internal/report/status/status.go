// Package status gathers what is known of a cluster: from its API, and from
// hosts that need none. It asks all at once, waits no longer than its limit for
// any of them, and changes nothing. Package decide/standing turns it into a view.
package status

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

// Limit bounds what sources may take, and membersLimit etcd itself afterwards:
// who asks waits two seconds at most.
const (
	Limit        = 1300 * time.Millisecond
	membersLimit = 500 * time.Millisecond
)

// Source is a place that tells something about a cluster. What it could not ask
// stands in the facts: a source has no other errors.
type Source interface {
	// Tell returns what it knows. Its context ends with the limit.
	Tell(ctx context.Context) standing.Facts
	// Silent is what it is where it has told nothing until the limit.
	Silent(limit time.Duration) standing.Source
}

// Gatherer asks sources, those first that are believed where two tell the same.
type Gatherer struct {
	Sources []Source
	// Members asks etcd itself how its members are, nil where that cannot be.
	Members func(ctx context.Context, f standing.Facts) map[string]standing.Member
	Now     func() time.Time
	// Limit is that of a look, zero for the usual one.
	Limit time.Duration
}

// Gather asks all sources and puts together what those told that answered in
// time.
func (g *Gatherer) Gather(ctx context.Context) standing.Facts {
	limit := g.Limit
	if limit == 0 {
		limit = Limit
	}
	parts := g.ask(ctx, limit)
	f := standing.Merge(parts...)
	f.Now = g.clock(parts)
	if g.Members != nil {
		ctx, cancel := context.WithTimeout(ctx, membersLimit)
		defer cancel()
		f = standing.Merge(asked(g.Members(ctx, f), f.Now), f)
	}
	return f
}

// clock is the time: that of the host where one was asked, else the API's.
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

// ask does not wait for a source that does not keep to its context.
func (g *Gatherer) ask(ctx context.Context, limit time.Duration) []standing.Facts {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex
	parts := make([]standing.Facts, len(g.Sources))
	for i, s := range g.Sources {
		parts[i].Sources = []standing.Source{s.Silent(limit)}
	}
	var group sync.WaitGroup
	for i, s := range g.Sources {
		group.Go(func() {
			told := s.Tell(ctx)
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
	return slices.Clone(parts)
}

// graceTime is for those who say themselves that their time is over.
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

// asked are members that etcd itself told of.
func asked(members map[string]standing.Member, now time.Time) standing.Facts {
	f := standing.Facts{Now: now}
	for name, m := range members {
		f.Hosts = append(f.Hosts, standing.Host{Name: name, ControlPlane: true, Member: standing.Know(m, "etcd", now)})
	}
	return f
}
