package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Etcd is the state of etcd as a host sees it.
type Etcd struct {
	// Writes is true while etcd takes writes here.
	Writes bool
	// TakesOver says what the etcd keeper does besides watching, empty for nothing.
	TakesOver string
	// Defragments is true while the member of this host is defragmented, and answers nobody.
	Defragments bool
	// Full is true while etcd takes no writes for lack of space (the alarm NOSPACE).
	Full bool
	// Learner names a member that is catching up, empty for none. Unstarted is true of one that never
	// started: it has no name, and catches up with nothing.
	Learner   string
	Unstarted bool
	// Members identifies the membership of etcd and of the pair: another text is another one.
	Members string
}

// Absence is a control plane that is away for work, or is about to be.
type Absence struct {
	Host string
	// Why is a sentence without the name of the host.
	Why string
	// Blocked is true while nothing but a program on it keeps it from its boot, maybe for days: until then
	// it serves as ever.
	Blocked bool
}

func (a Absence) String() string { return a.Host + " " + a.Why }

// Situation has the facts to which a backup gives way.
type Situation struct {
	Etcd state.Fact[Etcd]
	// Away has the control planes that are away for work, or are about to be. NotReady are those whose Node
	// is not Ready, whatever for, with the time at which that Node was made.
	Away     []Absence
	NotReady map[string]time.Time
	// Unread says why the site's wish could not be read since a person asked; empty if it was read.
	Unread string
	// Rotation names the authorities that are being replaced, empty for none.
	Rotation string
	// Busy names the other control planes that take a backup now.
	Busy []string
	// Free is the number of bytes that may still be written on the file system of the backups.
	Free state.Fact[uint64]
	// Line is the number of bytes that must stay free there; less than state.KeptFree counts as that.
	Line uint64
}

// quiet has the steps of the etcd keeper during which nothing changes its owner.
var quiet = []state.EtcdAction{state.EtcdIdle, state.EtcdWait, state.EtcdWriteRecord, state.EtcdMark, state.EtcdMoveLeader}

// EtcdOfPair returns the state in the report of the etcd keeper, on one of two hosts.
func EtcdOfPair(r state.EtcdReport) state.Fact[Etcd] {
	l, p := r.Snapshot.Local, r.Snapshot.Pacemaker
	if !l.Running.Known || !l.Leader.Known {
		return state.Fact[Etcd]{}
	}
	out := Etcd{
		Writes:  l.Running.Value && l.Leader.Value != 0 && l.Stalled == 0 && l.Leaderless == 0,
		Members: fmt.Sprintf("%s ring %d contact %v", members(l.Members.Value), p.Ring, p.Contact),
	}
	out.Learner, out.Unstarted = learner(l.Members.Value)
	switch {
	case l.StandIn.Value != 0:
		out.TakesOver = "a stand-in votes for the lost host"
	case p.Leaving:
		out.TakesOver = "etcd leaves this host"
	case !slices.Contains(quiet, r.Verdict.Action):
		out.TakesOver = "its step is " + string(r.Verdict.Action)
	}
	return state.Known(out)
}

// EtcdOfMember returns the state that a member shows, on a host where kubelet runs etcd.
func EtcdOfMember(votes bool, list []state.EtcdMember) Etcd {
	out := Etcd{Writes: votes, Members: members(list)}
	out.Learner, out.Unstarted = learner(list)
	return out
}

func members(list []state.EtcdMember) string {
	var out []string
	for _, m := range list {
		text := fmt.Sprint(m.ID)
		if m.Learner {
			text += " learns"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// learner returns the learner of a list, and whether it never started.
func learner(list []state.EtcdMember) (name string, unstarted bool) {
	for _, m := range list {
		if m.Learner && m.Name != "" {
			return m.Name, false
		}
		unstarted = unstarted || m.Learner
	}
	if unstarted {
		name = "a member that has not started yet"
	}
	return name, unstarted
}

// Around adds what the nodes show of the control planes. A host that a program keeps from its boot counts
// like one that a person is to boot: nothing that lasts for days may stop backups and defragmentations.
func (s *Situation) Around(self string, nodes []state.Node, now time.Time) {
	s.Away = append(s.Away, slices.DeleteFunc(Away(nodes), func(a Absence) bool { return a.Blocked })...)
	rotations := map[string]bool{}
	s.NotReady = map[string]time.Time{}
	for _, n := range nodes {
		if !n.ControlPlane() {
			continue
		}
		if !n.Ready {
			s.NotReady[n.Name] = n.Created
		}
		for _, a := range rotates(n) {
			rotations[a] = true
		}
		// A host that is lost said so before its end.
		if sum, err := ReadSummary(n.Annotations[Annotation]); err == nil && n.Name != self && n.Ready && !n.Absent && sum.Doing.busy(now) {
			s.Busy = append(s.Busy, n.Name)
		}
	}
	var names []string
	for a := range rotations {
		names = append(names, a)
	}
	slices.Sort(names)
	s.Rotation = strings.Join(names, ", ")
}

// within reports whether something of this age is younger than a limit. A negative age is none:
// the clock was set.
func within(age, limit time.Duration) bool { return age >= 0 && age < limit }

// Away returns the control planes that are away for work, or are about to be. The named ones count for
// nothing.
func Away(nodes []state.Node, but ...string) []Absence {
	var out []Absence
	for _, n := range nodes {
		if !n.ControlPlane() || slices.Contains(but, n.Name) {
			continue
		}
		upgrade := upgrades(n)
		if what := cmp.Or(upgrade, away(n)); what != "" {
			out = append(out, Absence{Host: n.Name, Why: what, Blocked: upgrade == "" && n.Ready && rollout.Blocked(n.Annotations)})
		}
	}
	return out
}

// Sentences tells who is away for what; empty if nobody is.
func Sentences(away []Absence) string {
	var out []string
	for _, a := range away {
		out = append(out, a.String())
	}
	return strings.Join(out, "; ")
}

// goneFor is the time for which a wish says that a host is lost. It stands at the node until another one
// comes, and the host that has come in the place of the lost one has turns of its own.
const goneFor = 24 * time.Hour

// gone returns the control plane that is lost by the wish at the node; empty for none. One that is Ready is
// not gone, whatever that person meant, and of one that nobody sees it is not known. The wish counts also
// once it is answered, for each run: what a host tends comes after the backup that was asked for. A Node that
// was made after the wish is that of the machine that came in its place.
func (f Facts) gone() string {
	lost := f.Asked.Gone
	made, is := f.NotReady[lost]
	return when(is && !made.After(f.Asked.At) && f.Now.Sub(f.Asked.At).Abs() < goneFor, lost)
}

// withoutLost returns the facts as they are without a host that is lost: it says for ever at its Node what it
// was at, and its member learns no more. Once the wish is answered, a member of its name may be the one of the
// machine that comes in its place.
func (f Facts) withoutLost() Facts {
	lost := f.gone()
	if lost == "" {
		return f
	}
	f.Away = slices.DeleteFunc(slices.Clone(f.Away), func(a Absence) bool { return a.Host == lost })
	if f.Etcd.Value.Learner == lost && f.Asked.Text != f.Journal.Asked {
		f.Etcd.Value.Learner = ""
	}
	return f
}

// upgrades says that a control plane is on its way to another release; empty if it is not.
func upgrades(n state.Node) string {
	turn, unreadTurn := annotation.Decode[annotation.Turn](n.Annotations[annotation.TurnOf])
	said, unread := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
	goes := unreadTurn == nil && turn.Wish == parachute.Go && !state.Is(said.Facts.Release, turn.To)
	return when(goes || unread == nil && !said.Journal.Step.AtRest(), "is on its way to another release")
}

// away says for which other work a control plane is away, or is about to be; empty for none. A host
// that was just lost shows in etcd. One that waits for a person's boot, maybe for weeks, does no
// work: a person may boot any host at any time. It has its turn once it is wanted by a command.
func away(n state.Node) string {
	switch wish := rollout.WishOf(n.Annotations); {
	case wish.HasTurn():
		return "has its turn to boot or for updates (to take that back: " + wish.Cancel(n.Name) + ")"
	case n.Annotations[rollout.StateOf] == string(rollout.Working) && n.Annotations[rollout.StageAt] != string(rollout.WaitsForBoot):
		return "is at work on its configuration"
	case n.Annotations[drain.CordonedBy] != "":
		return "is drained"
	}
	return ""
}

// rotates names the authorities that a control plane is replacing: those of which it trusts more
// than one.
func rotates(n state.Node) []string {
	var out []string
	for a, r := range state.ParseAnnotation[rotation.Reports](n.Annotations[state.AnnotationTrust]).Value.Authorities {
		if len(r.Trusts) > 1 {
			out = append(out, string(a))
		}
	}
	return out
}

// rule is one reason for which a backup does not begin, or is ended before its time.
type rule struct {
	id string
	// ends is true if it also ends a backup that has begun.
	ends bool
	// soft is true if it no longer counts after patience: a site whose host is away for
	// days needs its backups more than others do.
	soft bool
	why  func(s Situation, b Begun) string
}

// patience is the time for which a backup that is due waits for soft reasons.
const patience = 6 * time.Hour

var rules = []rule{
	// A run that only removes asks etcd nothing. etcd may be down because the disk is full on which that
	// run makes room.
	{id: "etcd-unknown", why: func(s Situation, b Begun) string {
		return when(!s.Etcd.Known && !b.removes(), "it is not known what etcd does here")
	}},
	{id: "no-writes", ends: true, why: func(s Situation, b Begun) string {
		return when(s.Etcd.Known && !s.Etcd.Value.Writes && !b.removes(), "etcd takes no writes here")
	}},
	{id: "take-over", ends: true, why: func(s Situation, _ Begun) string {
		return when(s.Etcd.Value.TakesOver != "", "the etcd keeper is at work: "+s.Etcd.Value.TakesOver)
	}},
	{id: "defragmentation", ends: true, why: func(s Situation, _ Begun) string {
		return when(s.Etcd.Value.Defragments, "etcd of this host is defragmented")
	}},
	// A defragmentation waits for the end of a backup, and nobody can write until then. Who asks for a
	// backup before he deletes something gets it.
	{id: "etcd-full", ends: true, soft: true, why: func(s Situation, b Begun) string {
		return when(s.Etcd.Value.Full && b.Asked == "" && !b.removes(), "etcd is full, and is defragmented first")
	}},
	// A backup slows a learner down, and does it no harm. So one that never started is no reason: its
	// machine may be dead, and it stays listed until somebody removes it; once it starts, it has a name, and
	// a backup that goes on ends. One that started may have died in the middle, so the rule is soft.
	{id: "learner", ends: true, soft: true, why: func(s Situation, _ Begun) string {
		return when(s.Etcd.Value.Learner != "" && !s.Etcd.Value.Unstarted, s.Etcd.Value.Learner+" catches up with etcd's data")
	}},
	{id: "members", ends: true, why: func(s Situation, b Begun) string {
		return when(s.Etcd.Known && b.Members != "" && b.Members != s.Etcd.Value.Members, "the membership changed")
	}},
	{id: "away", ends: true, soft: true, why: func(s Situation, _ Begun) string { return Sentences(s.Away) }},
	{id: "rotation", soft: true, why: func(s Situation, _ Begun) string {
		return when(s.Rotation != "", "authorities are being replaced: "+s.Rotation)
	}},
	{id: "unread", soft: true, why: func(s Situation, b Begun) string {
		// The person may have changed the wish right before, and waits for a copy at its targets.
		return when(b.Asked != "" && s.Unread != "", "it is not known what the site wants now: "+s.Unread)
	}},
	// Not soft: a host counts as busy for the time of the longest backup at most.
	{id: "busy", why: func(s Situation, _ Begun) string {
		return when(len(s.Busy) > 0, strings.Join(s.Busy, " and ")+" takes a backup")
	}},
	{id: "disk", ends: true, why: func(s Situation, b Begun) string {
		line := max(s.Line, state.KeptFree)
		return when(!b.removes() && s.Free.Known && s.Free.Value < line, fmt.Sprintf("%d MiB are free where backups lie, and %d MiB must stay free", s.Free.Value>>20, line>>20))
	}},
}

func when(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

// Hindrance is the reason for which a backup does not begin, or is ended before its time.
type Hindrance struct{ ID, Why string }

// hinders returns the first reason not to begin a run that has been due for a time; nil if there is
// none.
func hinders(s Situation, b Begun, due time.Duration) *Hindrance {
	for _, r := range rules {
		if why := r.why(s, b); why != "" && (!r.soft || due < patience) {
			return &Hindrance{r.id, why}
		}
	}
	return nil
}

// endsIt returns the first reason to end a backup that has begun, which may last for most; nil if there is
// none.
func endsIt(s Situation, b Begun, now time.Time, most time.Duration) *Hindrance {
	for _, r := range rules {
		if why := r.why(s, b); why != "" && r.ends && (!r.soft || !b.Late) {
			return &Hindrance{r.id, why}
		}
	}
	if lasts := now.Sub(b.At); lasts > most {
		return &Hindrance{"too-long", "it has lasted for " + page.Duration(lasts)}
	}
	return nil
}
