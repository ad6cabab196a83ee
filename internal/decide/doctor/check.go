package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Check is one entry of the table of checks.
type Check struct {
	// ID names the check, Title says what should be so.
	ID    finding.ID
	Title string
	// For is the scope in which the check applies.
	For   Scope
	judge func(*sheet)
	// Meaning says why it matters. Lines are what an administrator types; a remark
	// follows after two blanks or more.
	Meaning string
	Lines   []string
	// Alerts lists the alerts (render/alerts) that fire for the same problem.
	Alerts []string
}

// Scope says, in words, which clusters a check is for.
type Scope string

// The scopes.
const (
	Everywhere Scope = "every cluster"
	SeveralCPs Scope = "two and more control planes"
	Several    Scope = "two and more hosts"
	TwoFencing Scope = "two control planes with fencing"
)

// applies reports whether a topology is in the scope.
func (s Scope) applies(t Topology) bool {
	switch s {
	case Everywhere:
		return true
	case SeveralCPs:
		return t.ControlPlanes > 1
	case Several:
		return t.ControlPlanes+t.Workers > 1
	case TwoFencing:
		return t.ControlPlanes == 2 && t.Fencing
	}
	return false
}

// Kind returns what the findings of the check have in common with those of
// status. Its page is the check's part of the table.
func (c Check) Kind() finding.Kind {
	return finding.Kind{ID: c.ID, Title: c.Title, Page: "docs/runbook/doctor.md#" + string(c.ID), Alerts: c.Alerts}
}

// Kinds lists the kinds of all checks.
func Kinds() []finding.Kind {
	var out []finding.Kind
	for _, c := range Checks() {
		out = append(out, c.Kind())
	}
	return out
}

// Applies reports whether the check is for a cluster of this topology.
func (c Check) Applies(t Topology) bool { return c.For.applies(t) }

// Result is the outcome of one check. Its severity is that of its worst finding.
type Result struct {
	ID       finding.ID        `json:"id"`
	Title    string            `json:"title"`
	Severity finding.Severity  `json:"severity"`
	Findings []finding.Finding `json:"findings,omitempty"`
	// Unseen names the facts that the check needs and that are unknown.
	Unseen   []string          `json:"unseen,omitempty"`
	Meaning  string            `json:"meaning"`
	Commands []finding.Command `json:"commands,omitempty"`
}

// Checks lists all checks, the most costly problems first.
func Checks() []Check {
	return slices.Concat(powerChecks, fencingChecks, ringChecks, clockChecks, etcdChecks, hostChecks, nicChecks, dnsChecks, drainChecks)
}

// Find returns the check with an ID.
func Find(id finding.ID) (Check, bool) {
	for _, c := range Checks() {
		if c.ID == id {
			return c, true
		}
	}
	return Check{}, false
}

// Examine judges facts by the checks that apply to the cluster: all of them, or
// the named ones.
func Examine(f Facts, only ...finding.ID) []Result {
	var out []Result
	for _, c := range Checks() {
		if c.Applies(f.Topology) && (len(only) == 0 || slices.Contains(only, c.ID)) {
			out = append(out, c.examine(f))
		}
	}
	return out
}

func (c Check) examine(f Facts) Result {
	s := sheet{Facts: f, id: c.ID}
	c.judge(&s)
	r := Result{ID: c.ID, Title: c.Title, Severity: finding.OK, Findings: s.found, Unseen: s.unseen, Meaning: c.Meaning}
	for _, x := range s.found {
		r.Severity = finding.Worst(r.Severity, x.Severity)
	}
	if len(s.unseen) > 0 {
		r.Severity = finding.Worst(r.Severity, finding.Unknown)
	}
	slices.SortStableFunc(r.Findings, func(a, b finding.Finding) int { return finding.Compare(a.Severity, b.Severity) })
	if r.Severity != finding.OK && r.Severity != finding.Unknown {
		r.Commands = f.spell(c.Lines)
	}
	return r
}

// spell replaces the example names in commands by the names of this cluster's
// hosts.
func (f Facts) spell(lines []string) []finding.Command {
	names := strings.NewReplacer()
	if len(f.Hosts) > 1 {
		names = strings.NewReplacer("cp-1", f.Hosts[0].Name, "cp-2", f.Hosts[1].Name)
	}
	var out []finding.Command
	for _, line := range lines {
		out = append(out, finding.Anywhere(names.Replace(line))...)
	}
	return out
}

// Worst returns the worst severity of the results.
func Worst(results []Result) finding.Severity {
	worst := finding.OK
	for _, r := range results {
		worst = finding.Worst(worst, r.Severity)
	}
	return worst
}

// sheet holds the facts for a check and collects what it finds.
type sheet struct {
	Facts

	id     finding.ID
	found  []finding.Finding
	unseen []string
}

func (s *sheet) say(severity finding.Severity, subject, format string, args ...any) {
	s.found = append(s.found, finding.Finding{ID: s.id, Severity: severity, Subject: subject, Problem: fmt.Sprintf(format, args...)})
}

func (s *sheet) notSeen(format string, args ...any) {
	s.unseen = append(s.unseen, fmt.Sprintf(format, args...))
}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// eachHost judges a fact of every host, and notes the hosts for which it is
// unknown.
func eachHost[T any](s *sheet, what string, get func(Host) state.Fact[T], judge func(Host, T)) {
	var blind []string
	for _, h := range s.Hosts {
		if f := get(h); f.Known {
			judge(h, f.Value)
		} else {
			blind = append(blind, h.Name)
		}
	}
	if len(blind) > 0 {
		s.notSeen("%s of %s", what, strings.Join(blind, ", "))
	}
}

// known returns a fact's value, and notes a fact that is unknown.
func known[T any](s *sheet, what string, f state.Fact[T]) (T, bool) {
	if !f.Known {
		s.notSeen("%s", what)
	}
	return f.Value, f.Known
}
