package labsite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite/figures"
	"github.com/holdfast/holdfast/test/labsite/load"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// Bounds of waits. They are generous: slowness shows in the figures, and a
// bound only ends a wait for something that never comes.
const (
	WholeWithin  = 6 * time.Minute
	SteadyWithin = 2 * time.Minute
	pollEvery    = 200 * time.Millisecond
)

// Case is one run of a scenario, with the clients that send requests meanwhile.
type Case struct {
	*testing.T
	*Site

	// Trial holds the measurements. Number counts the earlier runs of the
	// scenario.
	Trial  figures.Trial
	Number int
	// Dir is the directory for artefacts.
	Dir string

	output  string
	clients map[string]*load.Load
	began   time.Time
	at      time.Time
	log     int64
	// waited is the machine's pressure at the beginning, negative if it is not known.
	waited time.Duration
}

// Plan names a scenario, the number of its runs, and the directory for the
// results.
type Plan struct {
	Scenario string
	Times    int
	Families string
	Output   string
}

// Play runs a scenario several times, on a site that must be whole before and
// after. If a failure leaves a broken site, it is not broken further.
func Play(t *testing.T, s *Site, p Plan, play func(*Case)) {
	t.Helper()
	for i := range p.Times {
		passed := t.Run(fmt.Sprintf("%s %d", p.Scenario, i), func(t *testing.T) {
			c := newCase(t, s, p, i)
			defer c.finish()
			c.Eventually(WholeWithin, "the site is whole before", func() error { return s.Whole(t.Context()) })
			play(c)
			c.Eventually(WholeWithin, "the site is whole after", func() error { return s.Whole(t.Context()) })
		})
		if !passed && s.Whole(t.Context()) != nil {
			t.Fatalf("the site is not whole after a failure: %q is not played again", p.Scenario)
		}
	}
}

func newCase(t *testing.T, s *Site, p Plan, i int) *Case {
	t.Helper()
	slug := strings.NewReplacer(" ", "-", ",", "", "/", "-", ":", "", "'", "").Replace(p.Scenario)
	dir, err := filepath.Abs(filepath.Join(p.Output, slug, fmt.Sprintf("%s-%d", time.Now().UTC().Format("150405"), i)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &Case{
		T: t, Site: s, Number: i, Dir: dir, output: p.Output, clients: map[string]*load.Load{}, began: now,
		Trial: figures.Trial{Scenario: p.Scenario, Families: p.Families, Time: now.UTC()},
	}
	if st, err := os.Stat(s.Lab.LogPath()); err == nil {
		c.log = st.Size()
	}
	if c.waited, err = waited(); err != nil {
		c.waited = -1
	}
	return c
}

// Ask starts a client that sends requests until the case ends.
func (c *Case) Ask(name string, shape load.Shape) {
	if shape.Dial == nil {
		shape.Dial = c.Lab.Dial
	}
	c.clients[name] = load.Start(c.Context(), shape)
}

// Clients returns the names of the clients, sorted.
func (c *Case) Clients() []string { return slices.Sorted(maps.Keys(c.clients)) }

// Steady waits until every request of every client is answered for a while. A
// case begins with it, and so does the end of each of its parts.
func (c *Case) Steady(what string) {
	c.Helper()
	after := time.Now()
	c.Eventually(SteadyWithin, "every client is answered "+what, func() error { return c.quiet(after, steadyRequests) })
}

// steadyRequests is the number of successive requests that must be answered:
// those of a second, at the usual rate.
const steadyRequests = load.DefaultRate

func (c *Case) quiet(after time.Time, want int) error {
	var errs []error
	for _, name := range c.Clients() {
		errs = append(errs, c.Quiet(name, after, want))
	}
	return errors.Join(errs...)
}

// Quiet returns nil if the wanted number of successive requests of a client
// were answered, all of them begun after a moment.
func (c *Case) Quiet(client string, after time.Time, want int) error {
	l := c.clients[client]
	if err := l.Recent(l.At(after)).Quiet(l.At(after), want); err != nil {
		return fmt.Errorf("%s: %w", client, err)
	}
	return nil
}

// Now records that something begins now, and returns the time.
func (c *Case) Now() time.Time {
	c.at = time.Now()
	return c.at
}

// Loss returns the loss that a client noticed from a moment until now.
func (c *Case) Loss(client string, from time.Time) load.Loss {
	l := c.clients[client]
	return l.History().Loss(l.At(from), l.Since())
}

// Record records what a client noticed from a moment until now, and returns it. zero is
// whether no request may fail.
func (c *Case) Record(client string, from time.Time, zero bool) load.Loss {
	l := c.clients[client]
	h, span := l.History(), load.Span{From: l.At(from), Until: l.Since()}
	c.Trial.Noticed(client, h, span, zero)
	return h.Loss(span.From, span.Until)
}

// Noticed records and logs the loss of every client from a moment until now.
// what names the figures of a phase after the event itself.
func (c *Case) Noticed(what string, from time.Time) {
	c.Helper()
	if what != "" {
		what = ", " + what
	}
	for _, name := range c.Clients() {
		loss := c.Record(name, from, false)
		c.Trial.Took(name+", no answer"+what, loss.Gap)
		if what == "" {
			c.Trial.Took(name+", last failure", loss.Until)
		}
		c.Logf("%s%s: %s", name, what, loss)
	}
}

// NothingFailed checks that no request of these clients failed since a moment.
func (c *Case) NothingFailed(what string, from time.Time, clients ...string) {
	c.Helper()
	for _, name := range clients {
		loss := c.Record(name, from, true)
		c.Logf("%s, %s: %s", name, what, loss)
		if loss.Failed > 0 {
			c.Errorf("%s: %s: %d of %d requests failed, want none: %s", what, name, loss.Failed, loss.Requests, loss)
		}
	}
}

// Inject records that a fault happens now, and injects it.
func (c *Case) Inject(f lab.Fault) {
	c.Helper()
	c.Now()
	if err := c.Power.Inject(c.Context(), f); err != nil {
		c.Fatal(err)
	}
}

// Mend clears a fault of a host.
func (c *Case) Mend(host string, kind lab.FaultKind) {
	c.Helper()
	if err := c.Clear(c.Context(), lab.ClearRequest{Host: host, Kind: kind}); err != nil {
		c.Fatal(err)
	}
}

// Switch acts on a host's power.
func (c *Case) Switch(host string, action lab.PowerAction) {
	c.Helper()
	if err := c.Power.Power(c.Context(), lab.PowerRequest{Host: host, Action: action}); err != nil {
		c.Fatal(err)
	}
}

// On runs a script on a host. The test fails if the script does.
func (c *Case) On(host, script string) string {
	c.Helper()
	out, err := c.Sh(c.Context(), host, script)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// Eventually repeats the check until it passes, and fails with its last error.
func (c *Case) Eventually(within time.Duration, what string, check func() error) {
	c.Helper()
	if err := Until(c.Context(), within, pollEvery, check); err != nil {
		c.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// Until repeats the check until it passes. If that takes too long, it returns
// the last error.
func Until(ctx context.Context, within, every time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if host.Sleep(ctx, every) != nil {
			return err
		}
	}
}

// BootedAgain waits until a host that ended, or was ended, runs again. If it
// stays off, BootedAgain switches it on.
func (c *Case) BootedAgain(host string, after time.Time) {
	c.Helper()
	pressAt := time.Now().Add(time.Minute)
	c.Eventually(5*time.Minute, host+" runs again", func() error {
		st, err := c.PowerOf(c.Context(), host)
		switch {
		case err != nil:
			return err
		case st.PID != 0 && st.Since.After(after):
			return c.Clear(c.Context(), lab.ClearRequest{Host: host})
		case st.Power == lab.PowerOff && st.BMC == "off" && time.Now().After(pressAt):
			c.Logf("%s stayed off: switching it on", host)
			pressAt = time.Now().Add(time.Hour)
			return errors.Join(errors.New("it was off"), c.Clear(c.Context(), lab.ClearRequest{Host: host}),
				c.Power.Power(c.Context(), lab.PowerRequest{Host: host, Action: lab.ActionOn}))
		}
		return fmt.Errorf("its power is %s since %s, its BMC says %s", st.Power, st.Since.Format(time.TimeOnly), st.BMC)
	})
}

// finish ends the clients, stores the figures and, after a failure, evidence of
// the reason.
func (c *Case) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 3*time.Minute)
	defer cancel()
	histories := map[string]load.History{}
	for name, l := range c.clients {
		histories[name] = l.Stop()
	}
	c.busy()
	c.Trial.Failed = c.Failed()
	if !c.at.IsZero() {
		if err := evidence.Append(filepath.Join(c.output, "results.jsonl"), c.Trial); err != nil {
			c.Error(err)
		}
	}
	if c.Failed() {
		c.keep(ctx, histories)
		if err := c.Clear(ctx, lab.ClearRequest{}); err != nil {
			c.Error(err)
		}
	}
}
