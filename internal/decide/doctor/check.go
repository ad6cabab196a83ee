package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK       Level = "ok"
	Advice   Level = "advice"   // could be better
	Unknown  Level = "unknown"  // could not be observed
	Warning  Level = "warning"  // costs availability if something else happens
	Critical Level = "critical" // costs availability now, or on the day when fencing is needed
)

// order ranks levels, the worst last.
var order = []Level{OK, Advice, Unknown, Warning, Critical}

func worse(a, b Level) Level {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Check is one entry of the table of checks.
type Check struct {
	ID, Title string
	// For is the scope in which the check applies.
	For   Scope
	judge func(*sheet)
	// Why says why it matters; Type lists what an administrator types.
	Why  string
	Type []string
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

// Applies reports whether the check is for a cluster of this topology.
func (c Check) Applies(t Topology) bool { return c.For.applies(t) }

// Finding is one fact that a check found.
type Finding struct {
	Level Level `json:"level"`
	// About is the host or object that the finding concerns, empty for the
	// cluster.
	About string `json:"about,omitempty"`
	Says  string `json:"says"`
}

// Result is the outcome of a check.
type Result struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Level    Level     `json:"level"`
	Findings []Finding `json:"findings,omitempty"`
	// Unseen names the facts that the check needs and that are unknown.
	Unseen []string `json:"unseen,omitempty"`
	Why    string   `json:"why"`
	Type   []string `json:"type,omitempty"`
}

// Checks lists all checks, the most costly problems first.
func Checks() []Check {
	return slices.Concat(powerChecks, fencingChecks, ringChecks, clockChecks, etcdChecks, hostChecks, nicChecks, dnsChecks, drainChecks)
}

// Find returns the check with an ID.
func Find(id string) (Check, bool) {
	for _, c := range Checks() {
		if c.ID == id {
			return c, true
		}
	}
	return Check{}, false
}

// Examine judges facts by the checks that apply to the cluster: all of them, or
// the named ones.
func Examine(f Facts, only ...string) []Result {
	var out []Result
	for _, c := range Checks() {
		if c.Applies(f.Topology) && (len(only) == 0 || slices.Contains(only, c.ID)) {
			out = append(out, c.examine(f))
		}
	}
	return out
}

func (c Check) examine(f Facts) Result {
	s := sheet{Facts: f}
	c.judge(&s)
	r := Result{ID: c.ID, Title: c.Title, Level: OK, Findings: s.found, Unseen: s.unseen, Why: c.Why}
	for _, x := range s.found {
		r.Level = worse(r.Level, x.Level)
	}
	if len(s.unseen) > 0 {
		r.Level = worse(r.Level, Unknown)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, b.Level), slices.Index(order, a.Level))
	})
	if r.Level != OK && r.Level != Unknown {
		r.Type = f.spell(c.Type)
	}
	return r
}

// spell replaces the example names in commands by the names of this cluster's
// hosts.
func (f Facts) spell(lines []string) []string {
	if len(f.Hosts) < 2 {
		return lines
	}
	names := strings.NewReplacer("cp-1", f.Hosts[0].Name, "cp-2", f.Hosts[1].Name)
	var out []string
	for _, line := range lines {
		out = append(out, names.Replace(line))
	}
	return out
}

// Worst returns the worst level of the results.
func Worst(results []Result) Level {
	worst := OK
	for _, r := range results {
		worst = worse(worst, r.Level)
	}
	return worst
}

// sheet holds the facts for a check and collects what it finds.
type sheet struct {
	Facts

	found  []Finding
	unseen []string
}

func (s *sheet) say(level Level, about, format string, args ...any) {
	s.found = append(s.found, Finding{Level: level, About: about, Says: fmt.Sprintf(format, args...)})
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
