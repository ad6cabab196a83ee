package backup

import (
	"cmp"
	"slices"
	"time"

	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The times of a host's backups.
const (
	// settle is the time from a host's first look to its first backup.
	settle = 15 * time.Minute
	// longest is the time after which a backup is ended, but for Begun.Longer.
	longest = model.DefaultTotal
	// mostSend bounds the time in which the copies of one run are sent.
	mostSend = 12 * time.Hour
	// retry is the pause after the first failure; each further failure doubles it, up to
	// maxRetry.
	retry    = 10 * time.Minute
	maxRetry = 4 * time.Hour
	// pause follows a backup that was ended before its time.
	pause = 5 * time.Minute
	// clockPatience is the time of a boot for which a host waits for a synchronised clock. A
	// site without a time server never has one, and needs backups too.
	clockPatience = time.Hour
	// lookEvery is the longest pause between two looks. follow is the pause while a backup is
	// taken, because a take-over must not wait for it.
	lookEvery = time.Minute
	follow    = time.Second
)

// Reasons of a run of the unit. A run for Tend takes no backup: it sends the newest one to
// targets that lack it, and removes those that are not kept any more.
const (
	ByPerson   = model.ByPerson
	BySchedule = model.BySchedule
	Tend       = "tend"
)

// Journal has what a host remembers about its backups, apart from their catalogue. It lies on
// the disk.
type Journal struct {
	// Since is the time at which this host first looked.
	Since time.Time `json:"since,omitzero"`
	// Slot is the last time of the schedule for which there is a good backup.
	Slot time.Time `json:"slot,omitzero"`
	// Asked is the last wish of a person that was answered; Answer is the answer.
	Asked  string `json:"asked,omitempty"`
	Answer Answer `json:"answer,omitzero"`
	// Begun is the run for which the unit was started, until its end was looked at.
	Begun *Begun `json:"begun,omitempty"`
	// Failed counts the failures since the last good backup, and has the last of them.
	Failed *Failure `json:"failed,omitempty"`
	// Again is the time before which no other try begins. Ended is true if the last try was
	// ended before its time.
	Again time.Time `json:"again,omitzero"`
	Ended bool      `json:"ended,omitempty"`
	// Tends counts the tries in a row that left something to tend, and TendAgain is the time
	// before which no other one begins.
	Tends     int       `json:"tends,omitempty"`
	TendAgain time.Time `json:"tendAgain,omitzero"`
	// Sweeps counts the tries in a row after which the rest of a run that was cut off still lay there,
	// and SweepAgain is the time before which no other one begins for it.
	Sweeps     int       `json:"sweeps,omitempty"`
	SweepAgain time.Time `json:"sweepAgain,omitzero"`
	// Left names the copies that the last run that removed backups could not remove at a target, with
	// the reason: the host has forgotten them.
	Left []string `json:"left,omitempty"`
	// ControlPlanes are the names of the site's control planes, as the API said last. Hosts that boot
	// together divide the hour before it answers.
	ControlPlanes []string `json:"controlPlanes,omitempty"`
	// Aimed is since when each target is configured, by its name. It is empty without targets, and nil
	// in the journal of an earlier build alone.
	Aimed map[string]time.Time `json:"aimed,omitzero"`
}

// Aim returns the journal with the targets of now. One that it does not know, or knows from a clock that
// was ahead, is configured since now. The journal of an earlier build knows none: its targets count
// since it began, or an upgrade would say for days that a target that is dead takes copies.
func (j Journal) Aim(targets []string, now time.Time) Journal {
	was, since := j.Aimed, now
	if was == nil && !j.Since.IsZero() && j.Since.Before(now) {
		since = j.Since
	}
	j.Aimed = map[string]time.Time{}
	for _, name := range targets {
		at, there := was[name]
		if !there || at.After(now) {
			at = since
		}
		j.Aimed[name] = at
	}
	return j
}

// Begun is a run of the unit that has begun.
type Begun struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Slot is the time of the schedule for which the backup is, and Asked the wish that it answers.
	Slot  time.Time `json:"slot,omitzero"`
	Asked string    `json:"asked,omitempty"`
	// Members is the membership when it began.
	Members string `json:"members,omitempty"`
	// Longer is how much longer than usual the run may last once it only sends: a line may be slow.
	Longer time.Duration `json:"longer,omitempty"`
	// Late is true if the backup was due for longer than patience: then soft reasons do not end it.
	Late bool `json:"late,omitempty"`
	// Stop says why it was told to end; empty if it was not.
	Stop string `json:"stop,omitempty"`
}

// Failure describes tries that ended without a good backup.
type Failure struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
	// Times is the number of tries in a row that failed. A try that was ended before its time
	// does not count.
	Times int `json:"times"`
}

// Answer is the answer to a person's wish.
type Answer struct {
	ID     string `json:"id,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// Facts has the input of the decision.
type Facts struct {
	Now time.Time
	// Host is the name of this host.
	Host string
	// Synchronised is true if the clock is synchronised; Up is how long this host has run.
	Synchronised state.Fact[bool]
	Up           time.Duration
	Schedule     Schedule
	// Offset is added to the times of the schedule to get those of this host. Part is this host's
	// part of each hour from then on; zero stands for all of it.
	Offset, Part time.Duration
	Journal      Journal
	// Asked is the wish of a person, zero if there is none. It stands at the node also once it is answered.
	Asked Asked
	// Unsent is the id of the newest good backup if a target lacks it; Spent are the ids of
	// backups to remove, none while etcd takes no writes.
	Unsent string
	Spent  []string
	// Held is since when something to tend has been there, and something in the way of that; zero if it
	// was not so at the last look outside the pause after a try.
	Held time.Time
	// Remains is true if the rest of a run that was cut off lies there, which may be twice the size of
	// the database. Each run removes it first. It is unknown while a run is at work.
	Remains state.Fact[bool]
	// Works is true if the unit runs, and Sends once its run asks nothing of etcd any more.
	Works, Sends bool
	Situation
}

// Action is what a host does about its backups.
type Action string

// The actions.
const (
	Rest   Action = "rest"    // no backup is due
	Wait   Action = "wait"    // a backup is due, and something is in its way
	Begin  Action = "begin"   // a run begins
	Follow Action = "follow"  // a run goes on
	End    Action = "end"     // a run is ended before its time
	TakeIn Action = "take-in" // a run has ended, and its end was not looked at yet
)

// Verdict is the decision.
type Verdict struct {
	Action Action
	// Rule is the id of the rule that decided, and Why its reason in words.
	Rule, Why string
	// Due is the time since which a backup is due; zero if none is.
	Due time.Time
	// Held is Facts.Held of the next look.
	Held time.Time
	// Begins is the run to begin.
	Begins Begun
	// Next is the time of the next backup; set if none is due.
	Next time.Time
	// Again is the pause until the next look.
	Again time.Duration
}

// Decide returns what the host does now.
func Decide(f Facts) Verdict {
	f = f.withoutLost()
	v := f.decide()
	// A try that fails ends no patience: what is in the way for days would have six hours after each.
	if left := f.Unsent != "" || len(f.Spent) > 0 || state.Is(f.Remains, true); v.Held.IsZero() && left && (v.Action != Begin || v.Begins.Late) {
		v.Held = f.Held
	}
	return v
}

func (f Facts) decide() Verdict {
	b := f.Journal.Begun
	switch {
	case f.Works && b == nil:
		// The unit was started by a person, or by an agent whose journal was lost. The unit's own
		// limit ends it.
		return Verdict{Action: Follow, Rule: "not-ours", Again: follow}
	case f.Works && b.Stop != "":
		return Verdict{Action: End, Rule: "stops", Why: b.Stop, Again: follow}
	case f.Works:
		if h := endsIt(f.Situation, *b, f.Now, f.lasts(*b)); h != nil {
			return Verdict{Action: End, Rule: h.ID, Why: h.Why, Again: follow}
		}
		return Verdict{Action: Follow, Rule: "works", Again: follow}
	case b != nil:
		return Verdict{Action: TakeIn, Rule: "ended"}
	}
	return f.wanted()
}

// Longer returns how much longer than usual a run may last once it only sends, for the longest time between
// two backups of a schedule. Half of that time is for copies: the next backup is not to wait for them.
func Longer(period time.Duration) time.Duration {
	return max(min(period/2, mostSend)-model.DefaultSend, 0)
}

// lasts returns the time after which a run is ended. One that only sends gets longer, unless another backup is
// due meanwhile: the newest one is sent then.
func (f Facts) lasts(b Begun) time.Duration {
	next, due := f.due()
	switch {
	case !f.Sends || b.Longer == 0:
		return longest
	case !due.IsZero() && next.Asked != "" && next.Asked != b.Asked:
		return model.DefaultSend // the command that asks waits for an hour
	case !due.IsZero() && next.Slot.After(b.Slot):
		return longest
	}
	return longest + b.Longer
}

// wanted decides whether a run begins while the unit does not work.
func (f Facts) wanted() Verdict {
	begins, due := f.due()
	if due.IsZero() && f.tends() {
		begins = Begun{Reason: Tend}
		if f.mayTend() {
			begins.ID = f.Unsent
		}
	}
	if begins.Reason == "" {
		next := f.next()
		return Verdict{Action: Rest, Rule: "not-due", Next: next, Again: min(max(next.Sub(f.Now), time.Second), lookEvery)}
	}
	if f.clockWaits() {
		return Verdict{Action: Wait, Rule: "clock", Why: "the clock is not synchronised", Due: due, Again: time.Minute}
	}
	since := due
	if due.IsZero() {
		since = f.held()
	}
	waited := max(f.Now.Sub(since), 0)
	h := hinders(f.Situation, begins, waited)
	if only := (Begun{Reason: Tend}); h != nil && f.clears() && hinders(f.Situation, only, waited) == nil {
		h, begins = nil, only // on a full disk it makes room for what is due
	}
	if h != nil {
		v := Verdict{Action: Wait, Rule: h.ID, Why: h.Why, Due: due, Again: 20 * time.Second}
		if due.IsZero() {
			v.Held = since
		}
		return v
	}
	if at := f.turn(begins, due); at.After(f.Now) {
		return Verdict{Action: Rest, Rule: "not-its-part", Next: at, Again: min(at.Sub(f.Now), lookEvery)}
	}
	if begins.ID == "" && begins.Reason != Tend {
		begins.ID = model.NewID(f.Host, f.Now)
	}
	begins.At, begins.Members, begins.Late = f.Now, f.Etcd.Value.Members, waited >= patience
	return Verdict{Action: Begin, Rule: begins.Reason, Due: due, Begins: begins, Again: follow}
}

// held returns since when something is in the way of what is to be tended. Nothing says since when that is
// due, and a host that is away for days is to keep no copy from a target.
func (f Facts) held() time.Time {
	if f.Held.IsZero() || f.Held.After(f.Now) {
		return f.Now
	}
	return f.Held
}

// due returns the backup that is wanted now, and the time since which it is due; zero for none.
// A person's wish goes before the schedule, and does not wait for the pause after a failure.
func (f Facts) due() (Begun, time.Time) {
	j := f.journal()
	slot := f.Schedule.Last(f.Now.Add(-f.Offset))
	if f.Asked.Text != "" && f.Asked.Text != j.Asked && (!j.Ended || !f.Now.Before(j.Again)) {
		since := f.Asked.At
		if since.IsZero() || since.After(f.Now) {
			since = f.Now
		}
		return Begun{Reason: f.Asked.reason(), Asked: f.Asked.Text, Slot: slot}, since
	}
	if f.Now.Before(j.Again) || slot.IsZero() || !slot.After(j.Slot) {
		return Begun{}, time.Time{}
	}
	since := slot.Add(f.Offset)
	if first := j.Since.Add(settle + f.Offset); j.Slot.IsZero() && since.Before(first) {
		since = first
	}
	if since.After(f.Now) {
		return Begun{}, time.Time{}
	}
	return Begun{Reason: BySchedule, Slot: slot}, since
}

// reason returns the reason of the backup that a person asked for. Words that the journal and the
// catalogue have for runs of the host's own do not count: a run for Tend takes no backup and so
// answers no wish, and one of the schedule has another place among those that are kept.
func (a Asked) reason() string {
	if a.Reason == Tend || a.Reason == BySchedule {
		return ByPerson
	}
	return cmp.Or(a.Reason, ByPerson)
}

// turn returns when a run that is due may begin: now, but for a backup of the schedule that is late.
// Such a backup begins in this host's part of an hour. A night without power, or an etcd without a
// quorum, mostly kept the other hosts from their backups too; and hosts that find themselves fit in
// the same moment would begin together, before either can say so.
func (f Facts) turn(b Begun, due time.Time) time.Time {
	late := f.Now.Sub(due)
	if b.Reason != BySchedule || f.Part <= 0 || late%closest < f.Part {
		return f.Now
	}
	return due.Add(late.Truncate(closest) + closest)
}

// tends reports whether the catalogue needs tending. A pause follows a try that left something.
func (f Facts) tends() bool { return f.Unsent != "" && f.mayTend() || f.clears() }

// clears reports whether some backups, or the rest of a run that was cut off, can be removed now.
func (f Facts) clears() bool { return len(f.Spent) > 0 && f.mayTend() || f.sweeps() }

// sweeps does not wait for the pause after a target that was away: on a full disk the rest of a run
// keeps every backup from beginning.
func (f Facts) sweeps() bool {
	return state.Is(f.Remains, true) && !f.Now.Before(f.Journal.at(f.Now).SweepAgain)
}

func (f Facts) mayTend() bool { return !f.Now.Before(f.Journal.at(f.Now).TendAgain) }

// removes reports whether a run does nothing but remove backups.
func (b Begun) removes() bool { return b.Reason == Tend && b.ID == "" }

// next returns when the next backup is due.
func (f Facts) next() time.Time {
	j := f.journal()
	next := f.Schedule.Next(f.Now.Add(-f.Offset))
	if slot := f.Schedule.Last(f.Now.Add(-f.Offset)); slot.After(j.Slot) { // that time is still open
		open := slot.Add(f.Offset)
		if j.Slot.IsZero() {
			open = later(open, j.Since.Add(settle+f.Offset))
		}
		return later(open, j.Again)
	}
	return later(next.Add(f.Offset), j.Again)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// journal returns the journal as it counts now. The first backup of a host comes soon after its
// installation; if the schedule has a time soon, that backup is the first one.
func (f Facts) journal() Journal {
	j := f.Journal.at(f.Now)
	if !j.Slot.IsZero() || j.Since.IsZero() {
		return j
	}
	from := j.Since.Add(-f.Offset)
	if f.Schedule.Next(from).Sub(from) <= closest {
		j.Slot = f.Schedule.Last(from)
	}
	return j
}

// at returns the journal without times that lie too far ahead of now. A clock that was ahead wrote
// them, and they would keep the host from backups until they have come.
func (j Journal) at(now time.Time) Journal {
	if j.Slot.After(now) {
		j.Slot = time.Time{}
	}
	if j.Since.After(now) {
		j.Since = time.Time{}
	}
	for _, t := range []*time.Time{&j.Again, &j.TendAgain, &j.SweepAgain} {
		if t.Sub(now) > maxRetry {
			*t = time.Time{}
		}
	}
	return j
}

// clockWaits reports whether a backup waits for the clock.
func (f Facts) clockWaits() bool {
	return f.Synchronised.Known && !f.Synchronised.Value && f.Up < clockPatience
}

// PartOf returns the offset of a host and its part of the hour that is the least time between two
// times of a schedule: the control planes of a site divide it.
func PartOf(self string, controlPlanes []string) (offset, part time.Duration) {
	names := slices.Clone(controlPlanes)
	slices.Sort(names)
	names = slices.Compact(names)
	i := slices.Index(names, self)
	if i < 0 || len(names) < 2 {
		return 0, closest
	}
	part = closest / time.Duration(len(names))
	return time.Duration(i) * part, part
}

// Took returns the journal after a good backup.
func (j Journal) Took(id string) Journal {
	b := j.Begun
	j.Begun, j.Failed, j.Again, j.Ended, j.Tends, j.TendAgain = nil, nil, time.Time{}, false, 0, time.Time{}
	if b == nil {
		return j
	}
	j.Sweeps, j.SweepAgain = 0, time.Time{} // its run removed what lay there
	if !b.Slot.IsZero() {
		j.Slot = b.Slot
	}
	if b.Asked != "" {
		j.Asked, j.Answer = b.Asked, Answer{ID: id}
	}
	return j
}

// Tended returns the journal after a run for Tend. left is true if there is still something to
// tend, and remains if the rest of a run that was cut off may still lie there.
func (j Journal) Tended(now time.Time, left, remains bool) Journal {
	b := j.Begun
	j.Begun = nil
	switch {
	case !remains:
		j.Sweeps, j.SweepAgain = 0, time.Time{}
	case b != nil && b.removes(): // one that was to send may have left it itself
		j.Sweeps++
		j.SweepAgain = now.Add(min(retry<<min(j.Sweeps-1, 10), maxRetry))
	}
	switch {
	case b != nil && b.Stop != "":
		j.TendAgain = now.Add(pause)
	case left && b != nil && b.removes() && now.Before(j.TendAgain):
		// This run removed only what a killed one had left: the pause of a target goes on.
	case left:
		j.Tends++
		j.TendAgain = now.Add(min(retry<<min(j.Tends-1, 10), maxRetry))
	default:
		j.Tends, j.TendAgain = 0, time.Time{}
	}
	return j
}

// Lost returns the journal after a try without a good backup. After a try that was ended before
// its time a person's wish stays open.
func (j Journal) Lost(now time.Time, why string) Journal {
	b := j.Begun
	j.Begun = nil
	if b != nil && b.Stop != "" {
		j.Ended, j.Again = true, now.Add(pause)
		return j
	}
	times := 1
	if j.Failed != nil {
		times += j.Failed.Times
	}
	j.Failed, j.Ended = &Failure{At: now, Why: why, Times: times}, false
	j.Again = now.Add(min(retry<<min(times-1, 10), maxRetry))
	if b != nil && b.Asked != "" {
		j.Asked, j.Answer = b.Asked, Answer{Failed: why}
	}
	return j
}
