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
	// settle is how long a host waits for its first backup.
	settle = 15 * time.Minute
	// longest is how long a backup may last.
	longest = 3 * time.Hour
	// retry is the pause after the first failure; each further one doubles it, up to
	// maxRetry.
	retry    = 10 * time.Minute
	maxRetry = 4 * time.Hour
	// pause is that after a backup that was ended before its time.
	pause = 5 * time.Minute
	// clockPatience is how long a host waits for a synchronised clock. A site without a
	// time server has none, and needs backups too.
	clockPatience = time.Hour
	// lookEvery is the longest pause between two looks, and follow the one while a
	// backup is taken: a take-over must not wait for it.
	lookEvery = time.Minute
	follow    = time.Second
)

// Reasons of backups. Tend takes none: it sends the newest one to targets that lack it, and
// removes those that are not kept any more.
const (
	ByPerson   = model.ByPerson
	BySchedule = model.BySchedule
	Tend       = "tend"
)

// Journal is what a host remembers of its backups beside their catalogue. It is durable.
type Journal struct {
	// Since is when this host first looked.
	Since time.Time `json:"since,omitzero"`
	// Slot is the last time of the schedule that a good backup has answered.
	Slot time.Time `json:"slot,omitzero"`
	// Asked is the last wish of a person that was answered, and Answer how.
	Asked  string `json:"asked,omitempty"`
	Answer Answer `json:"answer,omitzero"`
	// Begun is the backup for which the unit was started and whose end was not seen.
	Begun *Begun `json:"begun,omitempty"`
	// Failed is the last failure since the last good one.
	Failed *Failure `json:"failed,omitempty"`
	// Again is the time before which no try follows, and Ended is true if that is because
	// the last one was ended before its time.
	Again time.Time `json:"again,omitzero"`
	Ended bool      `json:"ended,omitempty"`
	// Tends counts the tries in a row after which there was still something to tend, and
	// TendAgain is the time before which none follows.
	Tends     int       `json:"tends,omitempty"`
	TendAgain time.Time `json:"tendAgain,omitzero"`
}

// Begun is a backup on its way.
type Begun struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Slot is the time of the schedule that it answers, and Asked the wish.
	Slot  time.Time `json:"slot,omitzero"`
	Asked string    `json:"asked,omitempty"`
	// Members is the membership at the beginning.
	Members string `json:"members,omitempty"`
	// Late is true if it was due for longer than patience: soft reasons do not end it.
	Late bool `json:"late,omitempty"`
	// Stop says why it was told to end; empty while it was not.
	Stop string `json:"stop,omitempty"`
}

// Failure is how tries ended without a good backup.
type Failure struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
	// Times is how many tries in a row failed. One that was ended before its time
	// counts for none.
	Times int `json:"times"`
}

// Answer is how a person's wish ended.
type Answer struct {
	ID     string `json:"id,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// Facts are what a host decides from.
type Facts struct {
	Now time.Time
	// Host is the name of this host.
	Host string
	// Synchronised says whether the clock is, and Up for how long this host has run.
	Synchronised state.Fact[bool]
	Up           time.Duration
	Schedule     Schedule
	// Offset is the time from the schedule's times to those of this host.
	Offset  time.Duration
	Journal Journal
	// Asked is the wish of a person, empty for none.
	Asked Asked
	// Unsent is the newest good backup if a target lacks it, and Spent are those that go.
	Unsent string
	Spent  []string
	// Works reports whether the unit does.
	Works bool
	Situation
}

// Action is what a host does about its backups.
type Action string

// The actions.
const (
	Rest   Action = "rest"    // none is due
	Wait   Action = "wait"    // one is due, and something is in its way
	Begin  Action = "begin"   // one begins
	Follow Action = "follow"  // one is taken
	End    Action = "end"     // one is ended before its time
	TakeIn Action = "take-in" // one has ended, and its end was not looked at yet
)

// Verdict is what a host does now.
type Verdict struct {
	Action Action
	// Rule is the id of the rule that decided, and Why its words.
	Rule, Why string
	// Due is since when one is due; zero if none is.
	Due time.Time
	// Begins is what begins.
	Begins Begun
	// Next is when the next one is due if none is.
	Next time.Time
	// Again is the pause until the next look.
	Again time.Duration
}

// Decide says what a host does.
func Decide(f Facts) Verdict {
	b := f.Journal.Begun
	switch {
	case f.Works && b == nil:
		// Whoever started it (a person, or an agent whose journal was lost), the unit's
		// own limit ends it.
		return Verdict{Action: Follow, Rule: "not-ours", Again: follow}
	case f.Works && b.Stop != "":
		return Verdict{Action: End, Rule: "stops", Why: b.Stop, Again: follow}
	case f.Works:
		if h := endsIt(f.Situation, *b, f.Now); h != nil {
			return Verdict{Action: End, Rule: h.ID, Why: h.Why, Again: follow}
		}
		return Verdict{Action: Follow, Rule: "works", Again: follow}
	case b != nil:
		return Verdict{Action: TakeIn, Rule: "ended"}
	}
	return f.wanted()
}

// wanted says whether a backup begins while none is on its way.
func (f Facts) wanted() Verdict {
	begins, due := f.due()
	if due.IsZero() && f.tends() {
		begins, due = Begun{ID: f.Unsent, Reason: Tend}, f.Now
	}
	if due.IsZero() {
		next := f.next()
		return Verdict{Action: Rest, Rule: "not-due", Next: next, Again: min(max(next.Sub(f.Now), time.Second), lookEvery)}
	}
	if f.clockWaits() {
		return Verdict{Action: Wait, Rule: "clock", Why: "the clock is not synchronised", Due: due, Again: time.Minute}
	}
	waited := max(f.Now.Sub(due), 0)
	if h := hinders(f.Situation, waited); h != nil {
		return Verdict{Action: Wait, Rule: h.ID, Why: h.Why, Due: due, Again: 20 * time.Second}
	}
	if begins.ID == "" && begins.Reason != Tend {
		begins.ID = model.NewID(f.Host, f.Now)
	}
	begins.At, begins.Members, begins.Late = f.Now, f.Etcd.Value.Members, waited >= patience
	return Verdict{Action: Begin, Rule: begins.Reason, Due: due, Begins: begins, Again: follow}
}

// due returns what is wanted now, and since when; zero for nothing. A person goes before
// the schedule, and does not wait for the pause after a failure.
func (f Facts) due() (Begun, time.Time) {
	j := f.journal()
	slot := f.Schedule.Last(f.Now.Add(-f.Offset))
	if f.Asked.Text != "" && f.Asked.Text != j.Asked && (!j.Ended || !f.Now.Before(j.Again)) {
		since := f.Asked.At
		if since.IsZero() || since.After(f.Now) {
			since = f.Now
		}
		return Begun{Reason: cmp.Or(f.Asked.Reason, ByPerson), Asked: f.Asked.Text, Slot: slot}, since
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

// tends reports whether what lies there needs the unit. A failure waits as one of a backup.
func (f Facts) tends() bool {
	return (f.Unsent != "" || len(f.Spent) > 0) && !f.Now.Before(f.Journal.at(f.Now).TendAgain)
}

// next returns when the next backup is due.
func (f Facts) next() time.Time {
	j := f.journal()
	next := f.Schedule.Next(f.Now.Add(-f.Offset))
	if slot := f.Schedule.Last(f.Now.Add(-f.Offset)); slot.After(j.Slot) { // that one is still open
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

// journal returns what the host remembers, as it counts now. The first backup of a host
// comes soon after its installation. If the schedule does so too, that is the first one.
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

// at returns the journal without times that a clock wrote which was ahead: they would
// keep a host from backups until they have come.
func (j Journal) at(now time.Time) Journal {
	if j.Slot.After(now) {
		j.Slot = time.Time{}
	}
	if j.Since.After(now) {
		j.Since = time.Time{}
	}
	for _, t := range []*time.Time{&j.Again, &j.TendAgain} {
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

// OffsetOf returns the time from the schedule's times to those of a host. The control
// planes of a site share the shortest time between two of them.
func OffsetOf(self string, controlPlanes []string) time.Duration {
	names := slices.Clone(controlPlanes)
	slices.Sort(names)
	names = slices.Compact(names)
	i := slices.Index(names, self)
	if i < 0 || len(names) < 2 {
		return 0
	}
	return time.Duration(i) * closest / time.Duration(len(names))
}

// Took returns the journal after a good backup.
func (j Journal) Took(id string) Journal {
	b := j.Begun
	j.Begun, j.Failed, j.Again, j.Ended, j.Tends, j.TendAgain = nil, nil, time.Time{}, false, 0, time.Time{}
	if b == nil {
		return j
	}
	if !b.Slot.IsZero() {
		j.Slot = b.Slot
	}
	if b.Asked != "" {
		j.Asked, j.Answer = b.Asked, Answer{ID: id}
	}
	return j
}

// Tended returns the journal after a run that took no backup. left is true if there is still
// something to tend.
func (j Journal) Tended(now time.Time, left bool) Journal {
	b := j.Begun
	j.Begun = nil
	switch {
	case b != nil && b.Stop != "":
		j.TendAgain = now.Add(pause)
	case left:
		j.Tends++
		j.TendAgain = now.Add(min(retry<<min(j.Tends-1, 10), maxRetry))
	default:
		j.Tends, j.TendAgain = 0, time.Time{}
	}
	return j
}

// Lost returns the journal after a try without a good backup. One that was ended before
// its time leaves a person's wish open.
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
