package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// maxTimeline limits the timeline of one incident: a host that boots again and
// again has a long one.
const maxTimeline = 80

func length(d time.Duration) string {
	if d < 10*time.Second {
		d = d.Round(100 * time.Millisecond)
	}
	return page.Duration(d)
}

func list(names []string) string {
	if len(names) == 0 {
		return "a host"
	}
	return strings.Join(names, " and ")
}

func times(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// title describes an incident in one line.
func title(i Incident) string {
	f := i.Failures[0]
	words := f.began()
	if len(i.Failures) > 1 {
		words += "; before that was over, " + i.Failures[1].began()
		if n := len(i.Failures) - 2; n > 0 {
			words += fmt.Sprintf(" (and %d more)", n)
		}
	}
	switch i.State {
	case Over:
		words += ": over after " + length(i.Long())
	case Waiting:
		words += ": waits for an administrator"
	case UnderWay:
		words += ": not over yet"
	}
	if len(i.People) > 0 {
		words += ", with a confirmation by " + list(i.People)
	}
	return words
}

// began describes the start of a failure, as part of a sentence.
func (f Failure) began() string {
	who := list(f.Hosts)
	switch f.Cause {
	case Planned:
		return who + " stopped cleanly" + f.inOrder()
	case Lost:
		return who + " stopped without notice"
	case Cut:
		return f.cut()
	case Gone:
		return who + " was lost"
	case Rebooted:
		return who + " restarted" + f.inOrder()
	case Started:
		return who + " started after both had been off"
	case CopyLost:
		return "etcd could not run from its data directory on " + who
	case Trouble:
	}
	return "etcd did not continue"
}

// inOrder says for what a host left by its own decision.
func (f Failure) inOrder() string {
	if f.Why == "" {
		return ""
	}
	return ", as planned: " + f.Why
}

func (f Failure) cut() string {
	m := f.Moment(PhaseFenced)
	if !m.At.IsZero() {
		return fmt.Sprintf("%s and %s lost contact with each other, and %s was switched off", f.By, list(f.Hosts), list(f.Hosts))
	}
	return fmt.Sprintf("%s and %s lost contact with each other", f.By, list(f.Hosts))
}

// Moment returns the moment of a phase, without words if it was not seen.
func (f Failure) Moment(p Phase) Moment {
	i := slices.IndexFunc(f.Moments, func(m Moment) bool { return m.Phase == p })
	if i < 0 {
		return Moment{}
	}
	return f.Moments[i]
}

// Words returns the report for people.
func (i Incident) Words() string {
	p := &report{page.Writer{Width: page.Broad}}
	p.Beside("", i.Title)
	p.Line("%s   %s to %s", i.ID, day(i.Start), i.until())
	p.Line("")
	p.Beside("", i.summary())
	for n, f := range i.Failures {
		p.Line("")
		if len(i.Failures) > 1 {
			p.Line("%d. %s", n+1, f.began())
		}
		p.moments(f)
	}
	p.notes(i.Notes)
	p.story(i)
	return p.String()
}

func (i Incident) until() string {
	if i.End.IsZero() {
		return "now"
	}
	return day(i.End)
}

// summary answers what people ask first: does it go on, did anybody have to do
// anything, what is still missing.
func (i Incident) summary() string {
	var out []string
	f := i.Failures[len(i.Failures)-1]
	if w := f.writes(); w != "" {
		out = append(out, w)
	}
	switch {
	case len(i.People) > 0:
		out = append(out, "A host went on after "+list(i.People)+" confirmed that its peer was off.")
	case i.State == Over && len(i.Journals) > 1:
		out = append(out, "No administrator had to act.")
	case i.State == Over:
		out = append(out, "According to "+i.Journals[0]+", no administrator had to act.")
	}
	switch i.State {
	case Over:
		out = append(out, "Both hosts are healthy again.")
	case Waiting:
		out = append(out, "It waits for an administrator now: run sudo holdfast explain on the host that is up.")
	case UnderWay:
		out = append(out, fmt.Sprintf("It is not over: until both are voters again, the loss of %s stops the cluster or loses data.", or(f.By, "either host")))
	}
	return strings.Join(out, " ")
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// report is a report that is being written.
type report struct{ page.Writer }

func (p *report) moments(f Failure) {
	for _, m := range f.Moments {
		if m.At.IsZero() {
			p.Beside(fmt.Sprintf("  %-14s%-10s", "-", ""), m.Words)
			continue
		}
		p.Beside(fmt.Sprintf("  %-14s%-10s", clock(m.At), "+"+length(m.After)), m.Words)
	}
}

func (p *report) notes(notes []string) {
	if len(notes) == 0 {
		return
	}
	p.Line("")
	p.Line("Notes")
	for _, n := range notes {
		p.Beside("  ", n)
	}
}

func (p *report) story(i Incident) {
	p.Line("")
	p.Line("What was recorded, by the clock of %s (%s)", i.Clock, "journals of "+list(i.Journals))
	width := 0
	for _, s := range i.Timeline {
		width = max(width, len(s.Host))
	}
	for _, s := range i.Timeline {
		p.Beside(fmt.Sprintf("  %-14s%-*s  ", clock(s.At), width, s.Host), s.Text)
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
func day(t time.Time) string   { return t.UTC().Format("2006-01-02 15:04:05Z") }

// timeline lists what was noted, from the first to the last, shortened in the
// middle.
func timeline(events []event) []Step {
	var out []Step
	for _, e := range events {
		if text := e.words(); text != "" {
			out = append(out, Step{At: e.t, Host: e.seer(), Text: text, From: e.From})
		}
	}
	if n := len(out) - maxTimeline; n > 0 {
		cut := Step{At: out[maxTimeline/2].At, Host: "...", Text: fmt.Sprintf("%d more lines", n+1), From: "here"}
		rest := out[maxTimeline/2+n+1:]
		out = append(append(slices.Clone(out[:maxTimeline/2]), cut), rest...)
	}
	return out
}

// words returns a record as a line of the timeline, empty for a record that is
// only counted.
func (r Record) words() string {
	switch r.Kind {
	case Booted:
		return "the host has started"
	case Members:
		return r.membership()
	case Decides:
		return r.decision()
	case Recorded:
		return fmt.Sprintf("etcd's record says %s: %s", r.State, or(r.Why, r.Rule))
	case Wished:
		return "Pacemaker requests etcd " + string(r.Wish)
	case AsksFence:
		return "Pacemaker is asked to fence " + r.Target
	case Fenced:
		if r.OK {
			return fmt.Sprintf("%s is off: %s", r.Target, r.Why)
		}
		return fmt.Sprintf("%s could not be switched off: %s", r.Target, r.Why)
	case Confirmed:
		return fmt.Sprintf("%s confirmed that %s is off: %s", r.Who, r.Target, r.Why)
	case Restarted:
		return "etcd is restarted in place: " + r.Why
	case Plans:
		return "decided by itself: " + r.Why
	case Missed:
		return times(r.Count, "event") + " before this could not be saved: the disk was full, or hung"
	case Holds, API, Tainted, Untainted, Pods, Wrote:
		return r.seen()
	}
	return ""
}

// seen describes what was seen of the cluster around etcd.
func (r Record) seen() string {
	switch r.Kind {
	case Holds:
		return "holds " + or(strings.Join(r.VIPs, " and "), "no virtual IP")
	case API:
		if r.OK {
			return "its API server is ready"
		}
		return "its API server is not ready"
	case Tainted:
		return "reports to the API that " + r.Target + " is out of service"
	case Untainted:
		return "reports to the API that " + r.Target + " is in service again"
	case Pods:
		return times(r.Count, "pod") + " of " + r.Target + " run elsewhere"
	case Wrote:
		return r.wrote("writes")
	default:
		return ""
	}
}

func (r Record) membership() string {
	switch {
	case len(r.Members) == 0:
		return "Corosync reports no members"
	case len(r.Members) == 1 && !r.Quorate:
		return "sees no other host and has no quorum"
	case len(r.Members) == 1:
		return "sees no other host"
	}
	return "sees " + list(r.Members)
}

// decision describes a rule that people want to see, empty for passing ones.
func (r Record) decision() string {
	switch {
	case r.Action == state.EtcdAskHuman:
		return "waits for its peer or an administrator: " + r.Why
	case r.Action == state.EtcdWait && state.EtcdSituationOf(r.Rule) == state.EtcdPeerGone, r.Action == state.EtcdStart, r.Action == state.EtcdStop,
		r.Action == state.EtcdStartStandIn, r.Action == state.EtcdEmpty, r.Action == state.EtcdGrantQuorum, r.Rule == state.EtcdRuleIdle:
		return "etcd: " + r.Why
	}
	return ""
}
