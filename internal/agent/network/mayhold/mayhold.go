// Package mayhold is the source of whether this host may hold virtual IPs at
// all, which on two hosts that fence each other the keeper of etcd knows.
package mayhold

import (
	"context"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is where the last word is kept for the next run of the agent in the same
// boot.
const Path = "/run/holdfast/may-hold"

// every is the pause between two questions to a keeper that does not answer, or
// does not wait with its answer. Less than the moment in which a host that
// leaves hands its leadership over: its VIPs are to be gone before its API
// server is without an etcd. One that waits tells each change at once.
const every = 250 * time.Millisecond

// patience is how long a question may wait, longer than the keeper makes it.
const patience = 15 * time.Second

// Source is the source of NetworkView.MayHold.
type Source struct {
	// Fencing is true on a cluster whose two control planes fence each other.
	Fencing bool
	// Path is the file with the last word.
	Path string
	// Recorded reports whether the host has a record of its part in the pair.
	Recorded func() bool
	// Ask asks the keeper for a report that has another mark than this one.
	Ask  func(ctx context.Context, mark string) (state.EtcdReport, error)
	Logf func(format string, args ...any)
}

// Name implements network.Source.
func (s *Source) Name() string { return "may-hold" }

// The words in the file.
const (
	wordYes = "yes\n"
	wordNo  = "no\n"
)

// Run implements network.Source.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	last := s.first()
	tell := func(v decide.Verdict) { update(func(view *state.NetworkView) { view.MayHold = v.May }) }
	tell(last)
	for mark := ""; s.Fencing; {
		report, err := s.next(ctx, mark)
		if err != nil {
			return err
		}
		if mark = ""; report.Known {
			mark = decide.Mark(report.Value)
		}
		next := decide.Decide(decide.Facts{Fencing: s.Fencing, Recorded: s.Recorded(), Report: report})
		if !next.May.Known || next.May == last.May {
			continue
		}
		last = next
		s.Logf("may hold virtual IPs: %t, %s", last.May.Value, last.Reason)
		tell(last)
		if err := s.keep(last.May.Value); err != nil {
			s.Logf("keep whether this host may hold virtual IPs: %v", err)
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// first is what holds before the keeper was asked: the last word of this boot,
// or what a boot begins with.
func (s *Source) first() decide.Verdict {
	const reason = "as before the agent's start"
	switch data, err := os.ReadFile(s.Path); {
	case err == nil && string(data) == wordYes:
		return decide.Verdict{May: state.Known(true), Reason: reason}
	case err == nil && string(data) == wordNo:
		return decide.Verdict{May: state.Known(false), Reason: reason}
	}
	return decide.AtBoot(s.Fencing, s.Recorded())
}

func (s *Source) keep(may bool) error {
	word := wordNo
	if may {
		word = wordYes
	}
	return host.WriteFileAtomic(s.Path, []byte(word), state.DefaultFileMode)
}

// next is the keeper's next report, unknown where it does not answer. Nothing
// new is not asked for again at once. The error is the context's end.
func (s *Source) next(ctx context.Context, mark string) (state.Fact[state.EtcdReport], error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := s.Ask(limited, mark)
	if err == nil && decide.Mark(r) != mark {
		return state.Known(r), nil
	}
	if over := host.Sleep(ctx, every-time.Since(began)); over != nil {
		return state.Fact[state.EtcdReport]{}, over
	}
	return state.Fact[state.EtcdReport]{Known: err == nil, Value: r}, nil
}
