package installer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// waitEvery is the pause between two readings of a site.
const waitEvery = time.Second

// Waiter waits for a site's installation.
type Waiter struct {
	// Hosts reads the hosts' reports, and Marks the data of the cluster's
	// ConfigMap. Both may fail while the site is young.
	Hosts func(context.Context) ([]state.Progress, error)
	Marks func(context.Context) (map[string]string, error)
	// Show is called after each reading.
	Show func(hosts []state.Progress, since time.Duration)
	Now  func() time.Time
}

// Outcome is the result of a wait.
type Outcome struct {
	Goal     installation.Goal `json:"goal"`
	Complete bool              `json:"complete"`
	// Seconds is the duration of the wait.
	Seconds float64          `json:"seconds"`
	Hosts   []state.Progress `json:"hosts"`
	// Open lists what the goal still lacks.
	Open []string `json:"open,omitempty"`
	// Unreachable is the last error of a configuration server that does not
	// answer.
	Unreachable string `json:"unreachable,omitempty"`
}

// Reason returns in one sentence why the goal was not reached.
func (o Outcome) Reason() string {
	if o.Unreachable != "" && len(o.Hosts) == 0 {
		return o.Unreachable
	}
	if o.Unreachable != "" {
		return strings.Join(append(o.Open, o.Unreachable), "; ")
	}
	return strings.Join(o.Open, "; ")
}

// ErrTimeout reports that a wait ended without its goal.
var ErrTimeout = errors.New("the time is over")

// Wait returns when the site has reached the goal. It reads the state at least
// once. It returns ErrTimeout after the timeout, or the context's cause if the
// context ends. The outcome is valid in all cases.
func (w *Waiter) Wait(ctx context.Context, goal installation.Goal, s *site.Site, timeout time.Duration) (Outcome, error) {
	want := installation.Expected{ControlPlanes: s.Config.ControlPlaneReplicas(), Workers: s.Config.ComputeReplicas()}
	o := Outcome{Goal: goal, Hosts: []state.Progress{}}
	start := w.Now()
	for {
		marks := w.look(ctx, &o)
		since := w.Now().Sub(start)
		o.Seconds = since.Seconds()
		w.Show(o.Hosts, since)
		if installation.Reached(goal, want, o.Hosts, marks) {
			o.Complete, o.Open, o.Unreachable = true, nil, ""
			return o, nil
		}
		o.Open = installation.Open(goal, want, o.Hosts)
		if since >= timeout {
			return o, ErrTimeout
		}
		if err := host.Sleep(ctx, min(waitEvery, timeout-since)); err != nil {
			return o, err
		}
	}
}

// look reads the state of hosts and cluster once. It asks the cluster even if
// the hosts answer: a report can get lost, its objects cannot.
func (w *Waiter) look(ctx context.Context, o *Outcome) map[string]string {
	hosts, err := w.Hosts(ctx)
	switch {
	case err == nil:
		o.Hosts, o.Unreachable = installation.Merge(o.Hosts, hosts), ""
	case !errors.Is(err, context.Canceled) && ctx.Err() == nil:
		o.Unreachable = fmt.Sprintf("no reports from the configuration server: %v", err)
	}
	marks, err := w.Marks(ctx)
	if err != nil {
		return nil // no API yet: the hosts report why
	}
	return marks
}

// ConfigServers returns the addresses, HOST:PORT, at which the site's
// configuration server may answer from outside: its VIPs or, if there are none,
// the host that starts the cluster and the internal name.
func ConfigServers(s *site.Site) []string {
	var out []string
	for _, vip := range s.Config.APIVIPs() {
		out = append(out, site.HostPort(vip.String(), site.ConfigServerPort))
	}
	if len(out) > 0 {
		return out
	}
	if a, named := s.RendezvousIP(); named {
		out = append(out, site.HostPort(a.String(), site.ConfigServerPort))
	}
	return append(out, site.HostPort(s.APIName(), site.ConfigServerPort))
}
