// Package space gives etcd space back: it defragments the member of its own host, and as the host
// that leads it moves the lead, compacts and takes the alarm NOSPACE back. Package
// decide/etcdspace decides.
//
// No host acts on the member of another one. There is no lock: all hosts decide by the same
// answers of the members, a step names its host, and that host waits until its turn has lasted.
//
// It owns state.EtcdSpacePath and the annotation decide/etcdspace.Annotation of this host's node,
// and writes state.EtcdDefragmentationPath, by which the keeper knows
// why etcd does not answer.
package space

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses of the loop.
const (
	every = 30 * time.Second
	// soon is the pause while a step is near: a turn lasts decide.Apart, and a person waits.
	soon  = 5 * time.Second
	looks = 5 * time.Second
	limit = etcdhealth.DefragmentMost + time.Minute
)

// Etcd is the member of this host.
type Etcd interface {
	Defragment(ctx context.Context) error
	MoveLeader(ctx context.Context, to state.MemberID) error
	Compact(ctx context.Context, revision int64) error
	Compacted(ctx context.Context, revision int64) (bool, error)
	DisarmNoSpace(ctx context.Context, members []state.MemberID) error
}

// Files are those of this host.
type Files interface {
	// Last returns the report that was written last in this boot.
	Last() (decide.Report, error)
	Write(r decide.Report) error
	Note(n state.EtcdDefragmentation) error
	RemoveNote() error
	// Wanted returns how long ago a person wished for a defragmentation; unknown if nobody did.
	Wanted() state.Fact[time.Duration]
	RemoveWanted() error
	// DropAside removes data that an etcd keeper of this host once set aside and nobody needs.
	DropAside() ([]string, error)
}

// Options holds what New needs.
type Options struct {
	Files
	Shape decide.Shape
	// View returns the cluster as this host knows it.
	View func() state.NetworkView
	// Members asks the members of all hosts, Own is that of this host.
	Members func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberSpace
	Own     func(address string) (Etcd, error)
	// Keeper returns the report of the etcd keeper, on two hosts.
	Keeper func(ctx context.Context) (state.EtcdReport, error)
	// BacksUp reports whether this host takes a backup.
	BacksUp func(ctx context.Context) (bool, error)
	// Backup returns how far that backup is.
	Backup func() (model.State, error)
	// Open opens the API.
	Open func() (API, error)
	// Uptime is the time since boot, by the clock of the keeper.
	Uptime func() (time.Duration, error)
	Now    func() time.Time
}

// Agent is the loop of one control plane.
type Agent struct {
	Options
	wake loop.Kick

	mu      sync.Mutex
	nodes   []state.Node   // as the watch has them
	summary decide.Summary // for metrics

	// Only the loop uses these.
	loaded  bool
	journal decide.Journal
	seen    []revision
	turn    string
	since   time.Duration
	// missing has the voters that do not answer, and since when.
	missing map[state.MemberID]time.Duration
	// wish is the one at the Node that stood at the last look, and waits for what it waited.
	wish, waits string
	told        decide.Summary
}

// New returns the loop of a host.
func New(o Options) *Agent { return &Agent{Options: o, wake: loop.NewKick()} }

// Task returns the loop.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "space of etcd", Wake: a.wake, First: every, Every: every, Limit: limit, Spared: true, Step: a.step}
}

// step looks once, and carries out what is decided. Errors of the API are reported, and keep
// nothing from being done.
func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	up, err := a.Uptime()
	if err != nil {
		return loop.Result{}, err
	}
	a.load()
	f := a.look(ctx, up)
	a.hold(&f)
	v := decide.Decide(f)
	a.waits = v.Why
	if v.Step == decide.None || v.Host != f.Self {
		removed, kept := a.tidy(f)
		return loop.Result{Again: pause(f, a.turn), Changed: removed}, errors.Join(a.settle(f, v, nil), a.note(f, v), a.publish(ctx, a.found(f, v).Summary), kept)
	}
	if err := a.note(f, v); err != nil {
		return loop.Result{}, err
	}
	err = a.act(ctx, f, v)
	return loop.Result{Again: soon, Changed: changed(v, err)}, errors.Join(err, a.settle(f, v, err), a.note(f, v)) // the next look tells the Node what is then
}

// tidy removes what an etcd keeper set aside beside the data, once etcd serves without one. It says what.
func (a *Agent) tidy(f decide.Facts) (string, error) {
	if !decide.Tidies(f) {
		return "", nil
	}
	gone, err := a.DropAside()
	if len(gone) == 0 {
		return "", err
	}
	return "removed the data of etcd that were set aside while there were two hosts: " + strings.Join(gone, ", "), err
}

// load takes in what an earlier process remembered. One that cannot be read is none.
func (a *Agent) load() {
	if a.loaded {
		return
	}
	if last, err := a.Last(); err == nil {
		a.journal = last.Journal
	}
	a.loaded = true
}

// hold remembers for how long the members have asked for the same step.
func (a *Agent) hold(f *decide.Facts) {
	if now := decide.Turn(*f); now != a.turn {
		a.turn, a.since = now, f.Uptime
	}
	f.Turn, f.Journal = f.Uptime-a.since, a.journal
}

// note writes what was found into the file of this host.
func (a *Agent) note(f decide.Facts, v decide.Verdict) error { return a.Write(a.found(f, v)) }

func (a *Agent) found(f decide.Facts, v decide.Verdict) decide.Report {
	f.Asked, f.Journal = true, a.journal
	asked, now := decide.Decide(f), a.Now()
	r := decide.Report{Host: f.Self, At: now, Members: f.Members.Value, Verdict: v, IfAsked: asked, Journal: a.journal, Summary: decide.Summarize(f, v, asked, a.wish)}
	r.Summary.At = now
	return r
}

// settle ends a person's wish that was carried out or that leads to nothing. The file of a wish stays
// while the alarm is raised: once old versions are compacted, the same member may be next again.
func (a *Agent) settle(f decide.Facts, v decide.Verdict, failure error) error {
	if !f.Asked || v.Step != decide.Defragment && !v.Final() {
		return nil
	}
	if a.wish != "" {
		answer := decide.Answer{Done: a.journal.Done}
		if v.Step == decide.None {
			answer = decide.Answer{Refused: v.Why}
		}
		if failure != nil {
			answer = decide.Answer{Failed: failure.Error()}
		}
		a.journal, a.wish = a.journal.Answers(a.wish, answer), ""
	}
	if v.Step == decide.Defragment && failure == nil && len(f.Raised()) > 0 {
		return nil
	}
	return a.RemoveWanted()
}

func pause(f decide.Facts, turn string) time.Duration {
	if f.Asked || turn != "" {
		return soon
	}
	return every
}

func changed(v decide.Verdict, err error) string {
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", v.Step, v.Why)
}
