// Package mayhold is the source of whether this host may hold VIPs at all. On two
// hosts that fence each other the etcd keeper knows that.
package mayhold

import (
	"context"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is the file that keeps the last answer for the next run of the agent in
// the same boot.
const Path = "/run/holdfast/may-hold"

// pollInterval is the pause between two requests to a keeper that does not answer, or
// does not wait with its answer. It is less than the time in which a leaving host
// hands its leadership over: the VIPs must be gone before the host's API server
// is without an etcd. A keeper that waits reports each change at once.
const pollInterval = 250 * time.Millisecond

// requestTimeout bounds a request; it is longer than the keeper waits with its answer.
const requestTimeout = 15 * time.Second

// Source is the source of NetworkView.MayHold.
type Source struct {
	// Fencing is true on a cluster whose two control planes fence each other.
	Fencing bool
	// Path is the file with the last answer.
	Path string
	// Recorded reports whether the host has a record of its part in the pair.
	Recorded func() bool
	// Ask asks the keeper for a report with another mark than this one.
	Ask  func(ctx context.Context, mark string) (state.EtcdReport, error)
	Logf func(format string, args ...any)
}

// Name implements network.Source.
func (s *Source) Name() string { return "may-hold" }

// The contents of the file.
const (
	wordYes = "yes\n"
	wordNo  = "no\n"
)

// Run implements network.Source.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	last, kept := s.first()
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
		if !next.May.Known || next.May == last.May && kept {
			continue
		}
		if next.May != last.May {
			s.Logf("may hold virtual IPs: %t, %s", next.May.Value, next.Reason)
			tell(next)
		}
		// Also an answer that a boot begins with is kept. The next run would begin as a
		// boot of a pair does, and put the virtual IPs down.
		last = next
		err = s.keep(last.May.Value)
		if kept = err == nil; !kept {
			s.Logf("keep whether this host may hold virtual IPs: %v", err)
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// first returns the answer before the keeper was asked: the last one of this
// boot, which was kept, or the one that a boot begins with.
func (s *Source) first() (v decide.Verdict, kept bool) {
	const reason = "as before the agent's start"
	switch data, err := os.ReadFile(s.Path); {
	case err == nil && string(data) == wordYes:
		return decide.Verdict{May: state.Known(true), Reason: reason}, true
	case err == nil && string(data) == wordNo:
		return decide.Verdict{May: state.Known(false), Reason: reason}, true
	}
	return decide.AtBoot(s.Fencing, s.Recorded()), false
}

func (s *Source) keep(may bool) error {
	word := wordNo
	if may {
		word = wordYes
	}
	return host.WriteFileAtomic(s.Path, []byte(word), state.DefaultFileMode)
}

// next returns the keeper's next report, unknown if the keeper does not answer.
// If there is nothing new it pauses first. The error is the context's end.
func (s *Source) next(ctx context.Context, mark string) (state.Fact[state.EtcdReport], error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := s.Ask(limited, mark)
	if err == nil && decide.Mark(r) != mark {
		return state.Known(r), nil
	}
	if over := host.Sleep(ctx, pollInterval-time.Since(began)); over != nil {
		return state.Fact[state.EtcdReport]{}, over
	}
	return state.Fact[state.EtcdReport]{Known: err == nil, Value: r}, nil
}
