package standing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// Plan is a change of a whole site that its hosts carry out by themselves: a control plane comes,
// goes or is replaced, the site moves, or gets a second address family. Upgrades, configurations
// and rotations have facts of their own.
type Plan struct {
	// ID tells plans apart.
	ID string
	// Words say who wanted it, and what it does.
	Words string
	// Since is when somebody wanted it.
	Since time.Time
	// Command follows it; empty if Words say how. On is the host on which it is typed, empty for
	// anywhere.
	Command, On string
	// Page is the page of the runbook.
	Page string
}

// PlanSaid is what a host says of its part in a plan.
type PlanSaid struct {
	Plan string
	// Words say what the host does, or for what it waits; Problem is the error of its last act, or
	// what it lacks for the plan; Way is what to type.
	Words, Problem, Way string
	// Over is true once it has done its part.
	Over bool
}

// planLate is after which time a person should look at a plan that holds the lock of all plans: a new
// machine that has to be brought and installed is there within a day.
const planLate = 24 * time.Hour

// ofPlans finds plans that are under way.
func (d describer) ofPlans() []finding.Finding {
	list := slices.Clone(d.Announced.Value)
	if id := d.Lock.Value.ID; id != "" && !slices.ContainsFunc(list, func(p Plan) bool { return p.ID == id }) {
		list = append(list, d.Lock.Value)
	}
	var out []finding.Finding
	for _, p := range list {
		if f, there := d.plan(p); there {
			out = append(out, f)
		}
	}
	return out
}

// plan returns the finding for a plan, and whether it is under way: it is over once each host with a
// Node says so. A plan of which no host says anything ends with its lock.
func (d describer) plan(p Plan) (finding.Finding, bool) {
	f := finding.Finding{
		ID: PlanUnderWay, Subject: p.ID, Severity: finding.Note, Page: p.Page,
		Problem: fmt.Sprintf("%s, under way%s", p.Words, d.long(p.Since)),
		Meaning: "Its hosts carry it out by themselves.",
	}
	if lock := d.Lock.Value; lock.ID == p.ID {
		f.Meaning += " Upgrades and other changes of the control planes wait until it is over."
		if !lock.Since.IsZero() && d.Now.Sub(lock.Since) > planLate {
			f.Severity, f.Meaning = finding.Warning, f.Meaning+" It takes longer than it should: the command says what it waits for."
		}
	}
	over, waits := false, false
	for _, h := range d.Hosts {
		i := slices.IndexFunc(h.Plans.Value, func(s PlanSaid) bool { return s.Plan == p.ID })
		if i < 0 {
			waits = waits || h.Kubelet.Known // a host without a Node says nothing
			continue
		}
		said := h.Plans.Value[i]
		if said.Over {
			over = true
			continue
		}
		waits = true
		if words := cmp.Or(said.Problem, said.Words); words != "" {
			f.Problem += "; " + h.Name + ": " + oneLine(words)
		}
		if said.Problem != "" {
			f.Severity, f.Variant = finding.Warning, f.Variant+h.Name+": "+said.Problem
		}
		if said.Way != "" && said.Way != p.Command {
			f.Commands = append(f.Commands, finding.On(h.Name, said.Way)...)
		}
	}
	if p.Command != "" {
		f.Commands = append(f.Commands, finding.On(p.On, p.Command)...)
	}
	return f, waits || !over
}
