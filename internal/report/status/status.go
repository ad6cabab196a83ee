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
	// Patience bounds the time of the API where more time may tell something else (see
	// Gatherer.Waits). An API on two slow cores takes several seconds while all pods start
	// (measured 2026-11-27 in the lab).
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
	// Waits is called before sources that were late are asked again, with Patience: if
	// nobody told anything of a host in time, or if the API alone is late though the hosts
	// say that etcd takes writes. Nil asks only once.
	Waits func()
}

// Gather asks all sources, and merges the facts of those that answered in time.
func (g *Gatherer) Gather(ctx context.Context) standing.Facts {
	limit := g.Limit
	if limit == 0 {
		limit = Limit
	}
	answers := g.ask(ctx, g.Sources, limit)
	if g.Waits != nil && g.mayBeSlow(answers) {
		g.Waits()
		g.askAgain(ctx, answers)
	}
	parts := make([]standing.Facts, len(answers))
	for i, a := range answers {
		parts[i] = a.Facts
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

// answer is what a source told, and whether it was late: then its facts say only that.
type answer struct {
	standing.Facts
	late bool
}

// mayBeSlow reports whether more time may give another picture. An API that is late
// where the hosts know of no writes fits what the hosts say, and nobody waits for it.
func (g *Gatherer) mayBeSlow(answers []answer) bool {
	isLate := func(a answer) bool { return a.late }
	if !slices.ContainsFunc(answers, isLate) {
		return false
	}
	if !slices.ContainsFunc(answers, tellsOfHosts) {
		return true
	}
	apiLate, parts := false, []standing.Facts(nil)
	for _, a := range answers {
		if fromAPI(a) && !a.late {
			return false // it answered on another way, or refused
		}
		apiLate = apiLate || fromAPI(a)
		parts = append(parts, a.Facts)
	}
	return apiLate && standing.TakesWrites(standing.Merge(parts...)) == standing.Yes
}

func fromAPI(a answer) bool {
	return slices.ContainsFunc(a.Sources, func(s standing.Source) bool { return s.Kind == standing.FromAPI })
}

// tellsOfHosts reports whether a source listed the hosts or told of one.
func tellsOfHosts(a answer) bool { return len(a.Hosts) > 0 || a.Nodes.Known }

// askAgain replaces the answers of those that were late.
func (g *Gatherer) askAgain(ctx context.Context, answers []answer) {
	var late []Source
	for i, a := range answers {
		if a.late {
			late = append(late, g.Sources[i])
		}
	}
	again := g.ask(ctx, late, Patience)
	for i, a := range answers {
		if a.late {
			answers[i], again = again[0], again[1:]
		}
	}
}

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

// ask returns in time even if a source ignores its context.
func (g *Gatherer) ask(ctx context.Context, sources []Source, limit time.Duration) []answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex
	answers := make([]answer, len(sources))
	for i, s := range sources {
		answers[i] = answer{late: true, Facts: standing.Facts{Sources: []standing.Source{s.TimedOut(limit)}}}
	}
	var group sync.WaitGroup
	for i, s := range sources {
		group.Go(func() {
			told := s.Gather(ctx)
			late := errors.Is(ctx.Err(), context.DeadlineExceeded)
			mu.Lock()
			defer mu.Unlock()
			answers[i] = answer{late: late, Facts: told}
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
	return slices.Clone(answers)
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
