// Package backup has a control plane take its backups: it reads the wish of the site, starts
// the unit render/host.BackupUnit for the work, ends it if something more important comes, and
// tells the cluster about its backups. Package decide/backup decides; package takebackup, which
// the unit runs, takes the backup.
//
// It owns Folder, the request of the unit, the unit's file, and the annotation
// decide/backup.Annotation of this host's node. It writes nothing into the catalogue of backups.
// The schedule goes on while the API is away, because the last wish without mistakes lies on
// the host's disk.
package backup

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"

	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses of the loop.
const (
	retry    = 10 * time.Second
	maxRetry = time.Minute
	limit    = 45 * time.Second
	// askEvery is the pause between two reads of the wish; catalogueEvery is that between
	// two reads of the catalogue while no run ends.
	askEvery       = time.Minute
	catalogueEvery = 10 * time.Minute
	// tellEvery is the least time between two writes about a backup that is being taken.
	tellEvery = 5 * time.Second
	// waitsEvery is the least time between two writes of which the second only words anew what a
	// backup waits for: the room that is free differs at each look.
	waitsEvery = 10 * time.Minute
)

// API is the part of the API that the loop needs.
type API interface {
	// Backup and Secret return nil for an object that is not there.
	Backup(ctx context.Context, name string) (*configv1alpha1.Backup, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	Annotate(ctx context.Context, node, name, value string) error
}

// Unit has the functions by which the agent handles the unit that takes backups.
type Unit struct {
	// Start has the unit carry out a request. The request holds credentials.
	Start func(ctx context.Context, request []byte) error
	// Stop ends the unit, and does not wait for the end.
	Stop func(ctx context.Context) error
	// Works reports whether the unit runs.
	Works func(ctx context.Context) (bool, error)
	// State returns the last state that the unit wrote in this boot; zero if there is none.
	State func() (model.State, error)
	// Forget removes the last request, with its credentials.
	Forget func() error
}

// Store is the folder of the journal and of the last wish without mistakes.
type Store struct {
	// Read returns the content of a file, and fs.ErrNotExist if there is none.
	Read  func(name string) ([]byte, error)
	Write func(name string, data []byte) error
}

// Options holds what New needs.
type Options struct {
	Unit
	Store
	Site string
	// Open opens the API.
	Open func() (API, error)
	// Etcd looks at etcd of this host.
	Etcd func(ctx context.Context) state.Fact[decide.Etcd]
	// Catalogue reads the entries of this host's backups.
	Catalogue func() ([]model.Entry, error)
	// Remains reports whether the rest of a run that was cut off lies in the catalogue. While the unit
	// works, that may be what it writes.
	Remains func() (bool, error)
	// Free returns how many bytes may still be written on the file system of the catalogue.
	Free func() (uint64, error)
	// Line returns how many bytes must stay free there.
	Line func() uint64
	// Synchronised reports whether the clock is synchronised, Up how long this host has run.
	Synchronised func() (bool, error)
	Up           func() (time.Duration, error)
	// Node returns the name of this host's node, empty while it is not known.
	Node  func() string
	Zones decide.Zones
	Now   func() time.Time
}

// Agent is the loop of one control plane.
type Agent struct {
	Options
	wake loop.Kick

	mu      sync.Mutex
	nodes   []state.Node   // as the watch has them
	anew    bool           // a person has just asked for a backup: the wish of the site may be new too
	summary decide.Summary // for metrics

	// Only the loop uses these.
	loaded  bool
	journal decide.Journal
	wish    decide.Wish
	inputs  decide.Inputs
	held    bool      // this host knows no wish without mistakes, so it removes no backup
	asked   time.Time // when the wish was last read from the API
	unread  string    // why the wish could not be read since a person asked
	refused []string
	lasts   period
	entries []model.Entry
	read    time.Time // when the catalogue was read last
	unbegun error     // why the unit was not started
	tended  time.Time // since when something has been in the way of what is to be tended
	told    string
	toldBy  string // the rule of the decision that was told
	toldAt  time.Time
}

// New returns the loop of a host.
func New(o Options) *Agent { return &Agent{Options: o, wake: loop.NewKick()} }

// Task returns the loop.
func (a *Agent) Task() loop.Task {
	return loop.Task{
		Name: "backups", Wake: a.wake, Retry: retry, MaxRetry: maxRetry, Limit: limit, Spared: true, Step: a.step,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, // no access to the API yet
	}
}

// Nodes takes in the nodes of the API. A new wish of a person wakes the loop, and so does
// the removal of the annotation that the host wrote.
func (a *Agent) Nodes(list []state.Node) {
	name := a.Node()
	a.mu.Lock()
	before, now := own(a.nodes, name), own(list, name)
	a.nodes, a.anew = list, a.anew || before[decide.WantedOf] != now[decide.WantedOf]
	a.mu.Unlock()
	if before[decide.WantedOf] != now[decide.WantedOf] || before[decide.Annotation] != now[decide.Annotation] {
		a.wake.Kick()
	}
}

// own returns the annotations of a node; nil if it is not in the list.
func own(list []state.Node, name string) map[string]string {
	for _, n := range list {
		if n.Name == name && name != "" {
			return n.Annotations
		}
	}
	return nil
}

// heard returns the nodes that the watch brought last. anew is true if they have a wish of a person
// that is younger than the last read of the site's.
func (a *Agent) heard() (nodes []state.Node, anew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes, a.anew
}

// step looks once, and carries out what is decided. Errors of the API are reported, and keep
// no backup from being taken.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	if a.Node() == "" {
		return loop.Result{Again: askEvery}, nil
	}
	if err := a.load(); err != nil {
		return loop.Result{Again: retry}, err
	}
	unread := errors.Join(a.learn(), a.ask(ctx), a.aim())
	facts, err := a.look(ctx)
	if err != nil {
		return loop.Result{Again: retry}, errors.Join(err, unread)
	}
	v := decide.Decide(facts)
	a.tended = v.Held
	changed, err := a.act(ctx, v, facts)
	if v.Action == decide.TakeIn && err == nil { // the next look, a second later, decides what follows
		v.Again = time.Second
	}
	untold := a.tell(ctx, v)
	if err != nil {
		return loop.Result{Again: retry, Changed: changed}, errors.Join(err, unread, untold)
	}
	return loop.Result{Again: v.Again, Changed: changed}, errors.Join(unread, untold)
}

// look gathers the facts for the decision.
func (a *Agent) look(ctx context.Context) (decide.Facts, error) {
	works, err := a.Works(ctx)
	if err != nil {
		return decide.Facts{}, err
	}
	now, self := a.Now(), a.Node()
	nodes, anew := a.heard()
	if err := a.readCatalogue(now); err != nil {
		return decide.Facts{}, err
	}
	f := decide.Facts{
		Now: now, Host: self, Schedule: a.wish.Schedule, Journal: a.journal,
		Asked: decide.ReadAsked(own(nodes, self)[decide.WantedOf]), Works: works,
		Unsent: a.wish.Unsent(a.entries, now), Spent: a.retained(now).Go, Held: a.tended,
	}
	f.Offset, f.Part = decide.PartOf(self, a.journal.ControlPlanes)
	if f.Etcd = a.Etcd(ctx); !f.Etcd.Known || !f.Etcd.Value.Writes {
		f.Spent = nil // while etcd is down a run removes what a killed one left, and no backup
	}
	if f.Unread = a.unread; anew && f.Unread == "" {
		f.Unread = "somebody has just asked"
	}
	f.Around(self, nodes, now)
	if said, err := a.State(); err == nil && works && a.journal.Begun != nil && said.Request == a.journal.Begun.ID {
		f.Sends = said.PastEtcd()
	}
	if !works && a.journal.Begun == nil {
		if is, err := a.Remains(); err == nil {
			f.Remains = state.Known(is)
		}
	}
	if free, err := a.Free(); err == nil {
		f.Free, f.Line = state.Known(free), a.Line()
	}
	if is, err := a.Synchronised(); err == nil {
		f.Synchronised = state.Known(is)
	}
	if up, err := a.Up(); err == nil {
		f.Up = up
	}
	return f, nil
}

// retained says which of the backups of this host are to be removed.
func (a *Agent) retained(now time.Time) model.Retained {
	if a.held {
		return model.Retained{Kept: "it knows no configuration of backups without mistakes, so it does not know how many to keep"}
	}
	return a.wish.Retained(a.entries, a.Node(), a.period(now), now)
}

// period is the longest time between two times of a schedule.
type period struct {
	of time.Time // the next time of the schedule when it was computed
	is time.Duration
}

// period returns the period of the schedule. It is remembered, since computing it looks at a
// month of the schedule.
func (a *Agent) period(now time.Time) time.Duration {
	if next := a.wish.Schedule.Next(now); a.lasts.is == 0 || !next.Equal(a.lasts.of) {
		a.lasts = period{of: next, is: a.wish.Schedule.Period(now)}
	}
	return a.lasts.is
}

// readCatalogue reads the entries, unless they were read a short time ago.
func (a *Agent) readCatalogue(now time.Time) error {
	if age := now.Sub(a.read); !a.read.IsZero() && age >= 0 && age < catalogueEvery {
		return nil
	}
	entries, err := a.Catalogue()
	if err != nil {
		return err
	}
	a.entries, a.read = entries, now
	return nil
}

// learn remembers the names of the control planes.
func (a *Agent) learn() error {
	nodes, _ := a.heard()
	var names []string
	for _, n := range nodes {
		if n.ControlPlane() {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	if !slices.Contains(names, a.Node()) || slices.Equal(names, a.journal.ControlPlanes) {
		return nil
	}
	j := a.journal
	j.ControlPlanes = names
	return a.remember(j)
}
