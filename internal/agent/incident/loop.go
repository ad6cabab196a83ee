// Package incident records on each of two control planes what happens to the two,
// and reports it: the events of this host's programs, its fences, confirmations
// by administrators, which VIPs it holds, and whether its API server is ready. It
// keeps its records in files and publishes them in the API. It makes reports from
// its own records and those of the other host. Package decide/incident decides
// what a report says, and which host creates the event of it in the API.
//
// It owns /var/lib/holdfast/incidents and the ConfigMap kube-system/
// holdfast-incidents-HOST, and changes nothing else.
package incident

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// Options holds what the loop of a host needs.
type Options struct {
	Site *site.Site
	Log  *slog.Logger
	Now  func() time.Time
}

// The times of the loop.
const (
	debounce         = 100 * time.Millisecond
	busyInterval     = 2 * time.Second  // the pause while something happens
	idleInterval     = 60 * time.Second // the pause while nothing does: no event is lost meanwhile
	busyFor          = 3 * time.Minute  // how long after the last record something still happens
	idlePeerInterval = 5 * time.Minute  // between two looks at the other host's, while nothing happens
	requestTimeout   = 6 * time.Second  // for one attempt at the API
	runTimeout       = 2 * time.Minute  // for one look, however slow the disk is
)

// Loop records and reports. It does nothing before Run.
type Loop struct {
	Options
	dir     string
	name    func() (string, error)
	sources sources
	api     access
	write   func(path string, data []byte, mode fs.FileMode) error
	watch   func(ctx context.Context, wake func())

	self    string
	memory  memory
	peers   map[string]incident.Published
	reports []decide.Incident
	shown   string // the data of this host that the API has
	asked   time.Time
	stale   bool // something is known that is not in the reports
	moving  bool // pods of a lost host may still be moving
	begun   bool // it has taken up what was noted before
}

// New returns the loop of a host, which is one of two control planes.
func New(o Options) *Loop {
	l := &Loop{Options: o, dir: incident.Dir, write: writeFile, peers: map[string]incident.Published{}}
	l.name = host.Name
	if o.Site != nil {
		l.sources, l.api, l.watch = thisHost(o.Site), accessOf(o.Site), watch
	}
	return l
}

// Run works until the context ends. No error ends it, because reports must not
// end the agent of a host.
func (l *Loop) Run(ctx context.Context, loops *loop.Loops) {
	wake := loop.NewKick()
	go l.watch(ctx, wake.Kick)
	loops.Run(ctx, l.task(wake))
}

// task looks at the pace of what happens, whether a look failed or not. A host
// without the API's files is not set up yet.
func (l *Loop) task(wake loop.Kick) loop.Task {
	return loop.Task{
		Name: "incidents", Wake: wake, Debounce: debounce, Limit: runTimeout, Spared: true,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) },
		Step: func(ctx context.Context) (loop.Result, error) {
			if !l.begun {
				if err := l.start(); err != nil {
					return loop.Result{Again: idleInterval}, err
				}
				l.begun = true
			}
			err := l.Step(ctx)
			return loop.Result{Again: l.pause()}, err
		},
	}
}

// start reads what was recorded before.
func (l *Loop) start() error {
	name, err := l.name()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	l.self = name
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return fmt.Errorf("reports of incidents: %w", err)
	}
	memory, err := readMemory(l.dir)
	if err != nil {
		l.Log.Warn("the notes of incidents cannot be used and are rebuilt from the events", "err", err)
	}
	l.memory, l.stale = memory, true
	reports, problems, err := incident.Files(l.dir)
	for _, p := range problems {
		l.Log.Warn("report of an incident", "problem", p)
	}
	l.reports = reports
	return err
}

func (l *Loop) pause() time.Duration {
	if l.busy() {
		return busyInterval
	}
	return idleInterval
}

// busy reports whether something happens, or has just happened.
func (l *Loop) busy() bool {
	if n := len(l.memory.Records); n > 0 && l.Now().Sub(l.memory.Records[n-1].At).Abs() < busyFor {
		return true
	}
	return l.moving
}

// Step does one round: it records, reports, publishes, and creates events. Each
// part is durable before the next begins, and is repeated if it was cut off.
func (l *Loop) Step(ctx context.Context) error {
	noted, err := l.note(ctx)
	reported := l.report()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var shown error
	if noted || l.busy() || l.untold() || l.Now().Sub(l.asked) >= idlePeerInterval || l.asked.IsZero() {
		shown = l.exchange(ctx)
	}
	return errors.Join(err, reported, shown)
}

// note adds new facts to this host's records, and reports whether there were any.
func (l *Loop) note(ctx context.Context) (bool, error) {
	next, err := l.sources.gather(ctx, l.self, l.memory)
	next.Records = decide.Newest(decide.Believed(decide.Unique(next.Records), l.Now()), maxRecords)
	if next.same(l.memory) {
		return false, err
	}
	if saveErr := l.save(next); saveErr != nil {
		return false, errors.Join(err, saveErr)
	}
	return true, err
}

// report writes reports of all that this host knows, if that is more than before.
func (l *Loop) report() error {
	if !l.stale {
		return nil
	}
	records := slices.Clone(l.memory.Records)
	lists := [][]decide.Incident{l.reports}
	for _, p := range l.peers {
		records = append(records, p.Records...)
		lists = append(lists, p.Incidents)
	}
	list := decide.Reports(records, lists...)
	if err := incident.Write(l.dir, list); err != nil {
		return err
	}
	l.reports, l.stale = list[max(0, len(list)-incident.Kept):], false
	return nil
}
