package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// worstFirst orders the text: all that was found, then what could not be checked.
var worstFirst = []finding.Severity{finding.Critical, finding.Warning, finding.Note, finding.Unknown, finding.OK}

// Text writes results for people: the worst first, and the checks that passed
// in one line.
func Text(f Facts, results []Result, style page.Style) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\n%s\n", f.Topology.words(), counts(results))
	if who := f.whence(); who != "" {
		b.WriteString(page.Wrap("", who, page.Narrow))
	}
	var well, blind []string
	for _, severity := range worstFirst {
		for _, r := range results {
			switch {
			case r.Severity != severity:
			case severity == finding.OK && !style.Wide:
				well = append(well, string(r.ID))
			case severity == finding.Unknown && !style.Wide && !r.found():
				blind = append(blind, string(r.ID)+": "+strings.Join(r.Unseen, "; "))
			default:
				r.write(&b, style)
			}
		}
	}
	if len(blind) > 0 {
		_, _ = fmt.Fprintf(&b, "\n%s\n", style.Paint(finding.Unknown.Colour(), "UNKNOWN: it could not be checked"))
	}
	for _, line := range blind {
		b.WriteString(page.Wrap("  ", "- "+line, page.Narrow))
	}
	f.why(&b, results)
	if len(well) > 0 {
		b.WriteString("\n" + page.Wrap("", style.Paint(finding.OK.Colour(), "ok")+": "+strings.Join(well, ", "), page.Narrow))
	}
	return b.String()
}

// why lists what prevented facts from being gathered, if a check lacked any.
func (f Facts) why(b *strings.Builder, results []Result) {
	if !slices.ContainsFunc(results, func(r Result) bool { return len(r.Unseen) > 0 }) {
		return
	}
	var lines []string
	for _, h := range f.Hosts {
		for _, t := range h.Trouble {
			lines = append(lines, h.Name+": "+t)
		}
	}
	if lines = append(lines, f.Cluster.Trouble...); len(lines) == 0 {
		return
	}
	b.WriteString("\nsome facts could not be read:\n")
	for _, line := range lines {
		b.WriteString(page.Wrap("  ", "- "+line, page.Narrow))
	}
}

// found reports whether a result has findings that are not OK.
func (r Result) found() bool {
	return slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Severity != finding.OK })
}

func (r Result) write(b *strings.Builder, style page.Style) {
	_, _ = fmt.Fprintf(b, "\n%s %s\n", style.Paint(r.Severity.Colour(), strings.ToUpper(string(r.Severity))), r.ID)
	b.WriteString(page.Wrap("  ", r.should()+r.Title, page.Narrow))
	for _, f := range r.Findings {
		if f.Severity == finding.OK && !style.Wide {
			continue
		}
		line := string(f.Severity) + ": "
		if f.Severity == r.Severity {
			line = ""
		}
		if f.Subject != "" {
			line += f.Subject + ": "
		}
		b.WriteString(page.Wrap("  ", "- "+line+f.Problem, page.Narrow))
	}
	if len(r.Unseen) > 0 {
		b.WriteString(page.Wrap("  ", "- unknown: "+strings.Join(r.Unseen, "; "), page.Narrow))
	}
	if style.Wide {
		b.WriteString(page.Wrap("  ", "why: "+r.Meaning, page.Narrow))
	}
	if r.Severity == finding.OK || r.Severity == finding.Unknown {
		return
	}
	for _, c := range r.Commands {
		b.WriteString("  $ " + squeezed(c.Line) + "\n")
	}
}

// should returns the words before a check's title if the check did not pass:
// the title describes the good state.
func (r Result) should() string {
	if r.Severity == finding.OK {
		return ""
	}
	return "expected: "
}

// squeezed moves a command and its remark closer together than in the table,
// where the remarks are aligned.
func squeezed(line string) string {
	command, remark, ok := strings.Cut(line, "  ")
	if !ok {
		return line
	}
	return command + "   " + strings.TrimSpace(remark)
}

func (t Topology) words() string {
	words := sprintf("%d control planes", t.ControlPlanes)
	if t.ControlPlanes == 1 {
		words = "1 control plane"
	}
	if t.Fencing {
		words += " with fencing"
	}
	if t.Workers > 0 {
		words += sprintf(", %d other hosts", t.Workers)
	}
	return words
}

func counts(results []Result) string {
	number := make(map[finding.Severity]int)
	for _, r := range results {
		number[r.Severity]++
	}
	words := []string{sprintf("%d checks", len(results))}
	if len(results) == 1 {
		words[0] = "1 check"
	}
	for _, severity := range worstFirst {
		if number[severity] > 0 {
			words = append(words, sprintf("%d %s", number[severity], severity))
		}
	}
	return strings.Join(words, ", ")
}

// whence says how the facts of each host were obtained.
func (f Facts) whence() string {
	by := map[string][]string{}
	for _, h := range f.Hosts {
		word := map[Source]string{Here: "checked by this command", Asked: "checked just now by its agent", Published: "published by its agent", Unasked: "not checked"}[h.Source]
		if h.Source == Published {
			word += " " + page.Duration(f.At.Sub(h.To)) + " ago"
		}
		by[word] = append(by[word], h.Name)
	}
	var words []string
	for _, word := range slices.Sorted(maps.Keys(by)) {
		words = append(words, strings.Join(by[word], ", ")+": "+word)
	}
	return strings.Join(words, "; ")
}

// Explanation returns everything that the table says about a check.
func (c Check) Explanation(style page.Style) string {
	b := &strings.Builder{}
	_, _ = fmt.Fprintf(b, "%s: %s\nfor %s\n\n", c.ID, c.Title, c.For)
	columns := page.Narrow
	if style.Wide {
		columns = 0
	}
	b.WriteString(page.Wrap("  ", c.Meaning, columns))
	if len(c.Lines) > 0 {
		b.WriteString("\n")
	}
	for _, line := range c.Lines {
		b.WriteString("  $ " + line + "\n")
	}
	return b.String()
}

// Table returns the table of checks as a part of docs/runbook/doctor.md.
func Table() string {
	var b strings.Builder
	for _, c := range Checks() {
		_, _ = fmt.Fprintf(&b, "\n### %s\n\n%s. *For %s.*\n\n%s\n", c.ID, page.Capital(c.Title), c.For, c.Meaning)
		if len(c.Lines) > 0 {
			b.WriteString("\n```\n" + strings.Join(c.Lines, "\n") + "\n```\n")
		}
	}
	return b.String()
}
