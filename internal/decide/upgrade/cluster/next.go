package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// longestGap is how far apart two looks may be for the time between them to count as
// healthy.
const longestGap = 5 * time.Minute

// rule is a row of a table: the first one that has an answer decides.
type rule struct {
	name   string
	answer func(Site) (Step, bool)
}

// rules is the table of an upgrade that is under way.
var rules = []rule{
	{"return", Site.beginReturn},
	{"resume", Site.resume},
	{"paused", Site.paused},
	{"plan", Site.plan},
	{"unwell goes back beside a proof", Site.besideProof},
	{"one at a time", Site.finishTurns},
	{"unwell goes back first", Site.unwellBack},
	{"everybody is there", Site.everybody},
	{"commit goes on", Site.raise},
	{"parts go back first", Site.partsBack},
	{"returned", Site.returned},
	{"failed part", Site.failedPart},
	{"undone part", Site.undonePart},
	{"rollout", Site.rollout},
	{"fetch", Site.fetch},
	{"failed host", Site.stopped},
	{"backup", Site.backup},
	{"gates", Site.gates},
	{"next host", Site.nextHost},
	{"parts", Site.parts},
	{"soak", Site.soak},
	{"backup of the commit", Site.backupOfCommit},
	{"last gates", Site.lastGates},
	{"close", Site.close},
}

// Next decides the next step. It changes nothing that it is given.
func Next(s Site) Step { return decide(rules, s) }

func decide(table []rule, s Site) Step {
	var step Step
	if s.Record.Started {
		for _, r := range table {
			if answer, ok := r.answer(s); ok {
				step = answer
				break
			}
		}
	} else {
		step = s.idle()
	}
	step = s.unawaited(step)
	step.Refused = s.refusal()
	return step
}

// idle offers a release, and begins once somebody wants it.
func (s Site) idle() Step {
	open := s.Open()
	if open.Started && s.Wish.Start && s.Wish.Release == open.To {
		step, _ := s.write(open, "the upgrade is taken up where its hosts are")
		return step
	}
	if s.Offers() != "" {
		why := "the release that is offered lies on all hosts"
		if missing := s.Unfetched(); missing != nil {
			why = "the release that is offered is fetched by " + strings.Join(missing, ", ")
		}
		return Step{Phase: Offered, Do: Rest, Why: why}
	}
	switch {
	case open.Started && !s.wants():
		return Step{Phase: Idle, Do: Rest, Why: "the hosts have not closed their way back, and no record says why. Take the upgrade up: holdfast upgrade start " + open.To}
	case !s.wants():
		return Step{Phase: Idle, Do: Rest, Why: "the site runs its release"}
	case !s.Wish.Start:
		return Step{Phase: Offered, Do: Rest, Why: "a release is offered"}
	}
	return Step{Phase: Fetching, Do: Write, Record: Record{Upgrade: s.Wish.Upgrade, From: s.Running, To: s.Wish.Release, Planes: s.counted(), Started: true}, Why: "the upgrade begins"}
}

// counted returns how many control planes the record counts. Of three, one without a node counts, too.
func (s Site) counted() int {
	if s.ControlPlanes <= three {
		return max(s.planes(), s.ControlPlanes)
	}
	return s.planes()
}

// wants reports whether somebody wants another release than the one that runs.
func (s Site) wants() bool { return s.Wish.Release != "" && s.Wish.Release != s.Running }

// Offers returns the digest of the release that all hosts fetch and that nobody wants to be
// installed yet; empty for none. Then Whole says of each host whether that one lies there.
func (s Site) Offers() string {
	if s.Record.Started || s.wants() || s.Running == "" || s.Wish.Offer == s.Running {
		return ""
	}
	return s.Wish.Offer
}

// refusal says why a wish does not count; empty if it does.
func (s Site) refusal() string {
	switch r := s.Record; {
	case !r.Started || s.Wish.Release == "" || s.Wish.Release == r.To:
		return ""
	case s.Wish.Release != r.From:
		return "another upgrade is under way: it is committed, or goes back, before a third release is installed"
	case r.NoWayBack:
		return "the way back is closed: only restoring a backup leads to the old release"
	}
	return ""
}

// phase is how far the upgrade is.
func (s Site) phase() Phase {
	switch {
	case s.Record.NoWayBack:
		return Committing
	case s.Record.Returning:
		return Returning
	case s.Unfetched() != nil && !s.begun():
		return Fetching
	case len(s.left()) == len(s.Hosts) && !s.begun():
		return Checked
	case len(s.left()) > 0 || len(s.atWork()) > 0:
		return Hosts
	case s.behind(false) != "" || !s.Record.Settled && len(s.Parts) > 0 || s.Record.Failed != "":
		return Parts
	}
	return Proving
}

// begun reports whether a host was ever given a turn of this upgrade.
func (s Site) begun() bool {
	return len(s.Record.Turns) > 0 || slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Journal.Upgrade == s.Record.Upgrade })
}

func (s Site) step(do Do, why string, hosts ...string) (Step, bool) {
	return Step{Phase: s.phase(), Do: do, Record: s.Record, Hosts: hosts, Why: why}, true
}

func (s Site) write(r Record, why string) (Step, bool) {
	s.Record = r
	if !r.Started {
		return Step{Phase: Idle, Do: Write, Why: why}, true
	}
	return Step{Phase: s.phase(), Do: Write, Record: r, Hosts: r.Turns, Why: why}, true
}

// beginReturn and resume follow a person until the way back is closed.
func (s Site) beginReturn() (Step, bool) {
	if r := s.Record; s.Wish.Release == r.From && !r.Returning && !r.NoWayBack {
		// Who is at work goes back at once, and the others in their turn.
		r.Returning, r.Turns, r.Healthy, r.Seen = true, names(s.atWork()), 0, time.Time{}
		r.Rollout, r.Settled, r.Failed = Rollout{}, false, ""
		return s.write(r, "an administrator goes back")
	}
	return Step{}, false
}

func (s Site) resume() (Step, bool) {
	if r := s.Record; s.Wish.Release == r.To && r.Returning {
		r.Returning, r.Turns, r.Rollout = false, nil, Rollout{}
		return s.write(r, "an administrator resumes the upgrade")
	}
	return Step{}, false
}

func (s Site) paused() (Step, bool) {
	if s.Wish.Paused == "" {
		return Step{}, false
	}
	return s.step(Pause, "paused: "+s.Wish.Paused)
}

// finishTurns waits for whoever is at work or has a turn, and takes back the turn of who
// has ended.
func (s Site) finishTurns() (Step, bool) {
	busy := names(s.atWork())
	for _, h := range s.Hosts {
		if slices.Contains(busy, h.Name) && !state.Is(h.Present, true) {
			return s.step(Pause, h.Name+" does not answer in the middle of its step: bring it back; it goes on, or returns, by itself"+s.forGood(h.Name), h.Name)
		}
		if slices.Contains(busy, h.Name) && s.silent(h) {
			return s.step(Pause, s.mute(h), h.Name)
		}
		if slices.Contains(busy, h.Name) && h.Held != "" {
			return s.step(Pause, h.Name+": "+h.Held, h.Name)
		}
	}
	r := s.Record
	r.Turns = slices.DeleteFunc(slices.Clone(r.Turns), func(name string) bool {
		i := slices.IndexFunc(s.Hosts, func(h Host) bool { return h.Name == name })
		return i < 0 || s.arrived(s.Hosts[i]) || s.Hosts[i].Journal.Step.AtRest() && s.hasTried(s.Hosts[i])
	})
	if others := without(busy, s.Record.Turns); len(others) > 0 && len(r.Turns) == 0 {
		return s.step(Await, strings.Join(others, " and ")+" goes on by itself", others...)
	}
	if len(r.Turns) != len(s.Record.Turns) {
		return s.write(r, "its turn has ended")
	}
	if len(r.Turns) > 0 {
		return s.await(r.Turns)
	}
	return Step{}, false
}

// await waits for hosts that have their turn, and names one that does not answer, or that holds.
func (s Site) await(turns []string) (Step, bool) {
	if step, goes := s.instead(turns); goes {
		return step, true
	}
	for _, h := range s.Hosts {
		if slices.Contains(turns, h.Name) && !state.Is(h.Present, true) && !s.ails(h) {
			return s.step(Pause, h.Name+" has its turn and does not answer: bring it back"+s.forGood(h.Name), h.Name)
		}
	}
	if why := s.away(turns); why != "" && len(s.atWork()) == 0 && !s.anyAils(turns) {
		r := s.Record
		r.Turns = nil
		return s.write(r, why+" is not known to be well, so no host begins")
	}
	for _, h := range s.Hosts {
		if slices.Contains(turns, h.Name) && h.Held != "" {
			return s.step(Pause, h.Name+": "+h.Held, h.Name)
		}
	}
	return s.step(Await, "waiting for "+strings.Join(turns, " and "), turns...)
}

// hasTried reports whether a host has ended the way of its turn elsewhere. That of an earlier turn is
// not meant: its journal says how it ended until the next attempt begins.
func (s Site) hasTried(h Host) bool {
	j := h.Journal
	return j.Upgrade == s.Record.Upgrade && j.Why != "" && !s.Record.Returning && (j.Failed || j.Attempts >= s.Record.Attempts[h.Name])
}

// attempts says which attempt of each host the turn is for that it is given.
func (s Site) attempts(hosts []string) map[string]int {
	out := map[string]int{}
	for _, h := range s.Hosts {
		if !slices.Contains(hosts, h.Name) {
			continue
		}
		if out[h.Name] = 1; h.Journal.Upgrade == s.Record.Upgrade {
			out[h.Name] += h.Journal.Attempts
		}
	}
	return out
}

func without(list, but []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(but, name) })
}

// everybody pauses while a host is missing: no further host begins, and nothing is
// committed.
func (s Site) everybody() (Step, bool) {
	why := s.away(nil)
	if why == "" {
		return Step{}, false
	}
	step, _ := s.step(Pause, why+" is not known to be well: it goes on once all hosts are"+s.forGood(why))
	step.Record.Seen = time.Time{}
	return step, true
}

// partsBack takes the parts back before the hosts, on the way back of the site and where
// they did not roll out.
func (s Site) partsBack() (Step, bool) {
	if !s.Record.Returning && s.Record.Failed == "" {
		return Step{}, false
	}
	why := ""
	if s.Record.Failed != "" {
		why = ": " + s.Record.Failed
	}
	for _, p := range slices.Backward(s.Parts) {
		if !state.Is(p.Release, s.Record.From) {
			step, _ := s.step(Bring, p.Name+" goes back"+why)
			step.Part, step.Release = p.Name, s.Record.From
			return step, true
		}
	}
	if s.Record.Returning {
		return s.settleBack()
	}
	return Step{}, false
}

// returned takes the hosts back one after the other, and ends the upgrade.
func (s Site) returned() (Step, bool) {
	if !s.Record.Returning {
		return Step{}, false
	}
	left := s.left()
	if len(left) == 0 {
		return s.write(Record{}, "the site is back at its old release")
	}
	if step, waits := s.fetchOld(s.batch(left)); waits {
		return step, true
	}
	return s.give(left)
}

// give gives the next hosts their turn.
func (s Site) give(left []Host) (Step, bool) {
	r := s.Record
	if why := s.fewer(); why != "" {
		return s.step(Pause, why)
	}
	r.Turns, r.Attempts = s.batch(left), nil
	if !r.Returning {
		r.Attempts = s.attempts(r.Turns)
	}
	why := strings.Join(r.Turns, " and ") + " is next"
	switch p := s.pendingOf(s.Parts); {
	case p == nil:
		r.Rollout = Rollout{} // another wait may begin
	case r.Returning:
		why += ", although not all pods of the old release run: " + p.words()
	}
	return s.write(r, why)
}

// Unfetched returns the hosts on which the release of which Whole tells does not lie whole; nil for none.
func (s Site) Unfetched() []string {
	return names(slices.DeleteFunc(slices.Clone(s.Hosts), func(h Host) bool { return state.Is(h.Whole, true) }))
}

func (s Site) fetch() (Step, bool) {
	if missing := s.Unfetched(); missing != nil {
		return s.step(Fetch, "the release is fetched by "+strings.Join(missing, ", "), missing...)
	}
	return Step{}, false
}

// stopped waits for a person where a host went back by itself.
func (s Site) stopped() (Step, bool) {
	h, failed := s.failed()
	if !failed {
		return Step{}, false
	}
	return s.step(Pause, fmt.Sprintf("%s went back: %s. An administrator decides: go back with the whole site, and begin anew if the cause is mended", h.Name, h.Journal.Why), h.Name)
}

// backup has a control plane take a backup before the first host begins. It asks once
// nothing else is in the way: so the backup is of the last state before the upgrade, and no
// upgrade that waits for days has one taken each day.
func (s Site) backup() (Step, bool) {
	if !only(s.Closed, gate.BackupGate) || s.Ask == (BackupWish{}) {
		return Step{}, false
	}
	return s.ask(s.Record)
}

// backupOfCommit does so before the way back is closed.
func (s Site) backupOfCommit() (Step, bool) {
	if !only(s.Last, gate.BackupCommitGate) || s.Ask == (BackupWish{}) {
		return Step{}, false
	}
	return s.ask(s.soaked())
}

// ask writes a wish into the record, which goes before the node: an operator that is killed
// in between does not ask for another one.
func (s Site) ask(r Record) (Step, bool) {
	r.Backup = s.Ask
	return s.write(r, s.Ask.Host+" is asked for a backup")
}

// only reports whether a gate is the only one that is closed.
func only(closed []gate.Gate, id gate.ID) bool { return len(closed) == 1 && closed[0].ID == id }

// gates hold hosts and the commit, and stop the clock of the soak.
func (s Site) gates() (Step, bool) {
	if len(s.Closed) == 0 {
		return Step{}, false
	}
	step, _ := s.step(Pause, reasons(s.Closed))
	step.Record.Seen = time.Time{}
	return step, true
}

// lastGates hold the closing of the way back alone. The site is healthy all the same, and
// its time counts.
func (s Site) lastGates() (Step, bool) {
	if len(s.Last) == 0 {
		return Step{}, false
	}
	step, _ := s.step(Pause, reasons(s.Last))
	step.Record = s.soaked()
	return step, true
}

func reasons(closed []gate.Gate) string {
	var out []string
	for _, g := range closed {
		out = append(out, g.String())
	}
	return strings.Join(out, "; ")
}

func (s Site) nextHost() (Step, bool) {
	if left := s.left(); len(left) > 0 {
		return s.give(left)
	}
	return Step{}, false
}

// behind names the first part that is not of the new release, although it may be.
func (s Site) behind(risen bool) string {
	for _, p := range s.Parts {
		if Follows(p.Name, s.Raises, risen) && !state.Is(p.Release, s.Record.To) {
			return p.Name
		}
	}
	return ""
}

func (s Site) parts() (Step, bool) {
	part := s.behind(false)
	if part == "" {
		return Step{}, false
	}
	return s.bring(part)
}

func (s Site) bring(part string) (Step, bool) {
	step, _ := s.step(Bring, part+" follows")
	step.Part, step.Release = part, s.Record.To
	return step, true
}

// soak counts the time for which the site was seen healthy.
func (s Site) soak() (Step, bool) {
	r := s.soaked()
	switch {
	case s.Plan != "" && !s.Wish.Commit: // one host alone shows little
		r.Healthy, r.Seen = s.Record.Healthy, time.Time{}
		return s.write(r, "the way back stays open: "+s.Plan)
	case s.fewer() != "" && !s.Wish.Commit:
		r.Healthy, r.Seen = s.Record.Healthy, time.Time{}
		return s.write(r, "the way back stays open: "+s.fewer())
	case s.Wish.Commit || !s.SoakOff && r.Healthy >= s.Soak:
		return Step{}, false
	case s.SoakOff:
		return s.write(r, "the way back is open until an administrator commits")
	}
	return s.write(r, fmt.Sprintf("healthy for %s of %s", r.Healthy.Round(time.Second), s.Soak))
}

// soaked returns the record with the time since the last look.
func (s Site) soaked() Record {
	r := s.Record
	if gap := s.Now.Sub(r.Seen); !r.Seen.IsZero() && gap > 0 && gap <= longestGap {
		r.Healthy += gap
	}
	r.Seen = s.Now
	return r
}

// close writes that there is no way back, before anything happens that closes it.
func (s Site) close() (Step, bool) {
	r := s.Record
	r.NoWayBack, r.Turns = true, nil
	return s.write(r, "the way back is closed")
}

// Stage returns the stage whose gates belong into Closed. A commit that has begun asks
// none: it is completed host by host while all are well.
func Stage(s Site) gate.Stage {
	switch s.phase() {
	case Proving:
		return gate.Commit
	case Hosts:
		return gate.Between
	case Parts:
		return gate.Bring
	case Idle, Offered, Fetching, Checked, Committing, Returning:
	}
	return gate.Begin
}
