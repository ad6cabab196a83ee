// Package mayhold is the source of whether this host may hold virtual IPs at
// all, which on two hosts that fence each other the keeper of etcd knows.
package mayhold

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// Path is where the last word is kept for the next run of the agent in the same
// boot.
const Path = "/run/holdfast/may-hold"

// every is the pause between two questions to the keeper, which has its answer
// ready. Less than the moment in which a host that leaves hands its leadership
// over: its VIPs are to be gone before its API server is without an etcd.
const every = 250 * time.Millisecond

// Source is the source of NetworkView.MayHold.
type Source struct {
	// Fencing is true on a cluster whose two control planes fence each other.
	Fencing bool
	// Path is the file with the last word; Record that of the host's part in the
	// pair.
	Path, Record string
	// Ask asks the keeper.
	Ask  func(context.Context) (state.EtcdReport, error)
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
	for s.Fencing {
		if err := host.Sleep(ctx, every); err != nil {
			return err
		}
		next := decide.Decide(s.facts(ctx))
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
	return decide.AtBoot(s.Fencing, s.recorded())
}

func (s *Source) keep(may bool) error {
	word := wordNo
	if may {
		word = wordYes
	}
	return host.WriteFileAtomic(s.Path, []byte(word), state.DefaultFileMode)
}

func (s *Source) facts(ctx context.Context) decide.Facts {
	f := decide.Facts{Fencing: s.Fencing, Recorded: s.recorded()}
	if r, err := s.Ask(ctx); err == nil {
		f.Report = state.Known(r)
	}
	return f
}

// recorded reports whether there is a record. One that cannot be looked at is
// one.
func (s *Source) recorded() bool {
	_, err := os.Stat(s.Record)
	return !errors.Is(err, fs.ErrNotExist)
}
