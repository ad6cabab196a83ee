// Package finding defines the vocabulary of what status and doctor find: how
// severe it is, what it concerns, what it means, and which commands help. An ID
// ties a finding to its page of the runbook and to its alerts.
package finding

import (
	"slices"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// Severity ranks findings. Status, doctor, the dashboard and the exit codes use
// the same five.
type Severity string

// The severities.
const (
	OK       Severity = "ok"
	Note     Severity = "note"     // good to know, or could be better
	Unknown  Severity = "unknown"  // it could not be checked; never counts as OK
	Warning  Severity = "warning"  // it costs availability when something else happens: look at it today
	Critical Severity = "critical" // it costs availability or data now, or on the day that fencing is needed
)

// Severities lists all severities, the mildest first.
func Severities() []Severity { return []Severity{OK, Note, Unknown, Warning, Critical} }

// Compare orders the more severe one first, for slices.SortFunc.
func Compare(a, b Severity) int { return rank(b) - rank(a) }

func rank(s Severity) int { return slices.Index(Severities(), s) }

// Worst returns the most severe one, OK where there is none.
func Worst(list ...Severity) Severity {
	worst := OK
	for _, s := range list {
		if rank(s) > rank(worst) {
			worst = s
		}
	}
	return worst
}

// Colour returns the severity's colour on a terminal.
func (s Severity) Colour() page.Colour {
	return map[Severity]page.Colour{OK: page.Green, Note: page.Cyan, Unknown: page.Yellow, Warning: page.Yellow, Critical: page.Red}[s]
}

// ID names a kind of finding. It stays the same over releases: scripts and
// tickets hold it.
type ID string

// Kind holds what all findings of one ID have in common: a problem that status
// finds, or a check of doctor.
type Kind struct {
	ID ID
	// Title describes the problem in one line; the title of a check describes the
	// state in which there is none.
	Title string
	// Page is the page of the runbook, with an anchor if only a part of it
	// applies; empty if the commands of the finding are all there is to say.
	Page string
	// Alerts lists the alerts (render/alerts) that fire for the same problem.
	Alerts []string
}

// Finding describes one thing that is not as it should be.
type Finding struct {
	ID       ID       `json:"id"`
	Severity Severity `json:"severity"`
	// Subject is the host or object concerned, empty for the cluster.
	Subject string `json:"subject,omitempty"`
	// Variant tells findings of one ID and Subject apart. It holds nothing that
	// changes by itself, as the age of a report does.
	Variant string `json:"-"`
	// Problem is one sentence; it may repeat the subject.
	Problem string `json:"problem"`
	// Meaning tells what follows from the problem, and what helps.
	Meaning  string    `json:"meaning,omitempty"`
	Commands []Command `json:"commands,omitempty"`
	// Page is that of the Kind, or a closer one.
	Page string `json:"page,omitempty"`
}

// Same reports whether two findings are about the same thing.
func (f Finding) Same(o Finding) bool {
	return f.ID == o.ID && f.Subject == o.Subject && f.Variant == o.Variant
}

// Command is one exact line for a shell.
type Command struct {
	Line string `json:"line"`
	// Host names the host to type it on, empty for anywhere.
	Host string `json:"host,omitempty"`
}

// Anywhere returns a command that works wherever the API can be reached.
func Anywhere(line string) []Command { return On("", line) }

// On returns a command for one host.
func On(host, line string) []Command { return []Command{{Line: line, Host: host}} }
