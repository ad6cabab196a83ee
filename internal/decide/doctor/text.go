package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/explain"
)

// Style is how a text looks. Its zero value is plain.
type Style struct {
	// Colour marks levels with the escapes of terminals.
	Colour bool
	// Wide adds what is well, and why each check matters.
	Wide bool
}

var colours = map[Level]string{
	OK: "\x1b[32m", Advice: "\x1b[36m", Unknown: "\x1b[33m", Warning: "\x1b[33m", Critical: "\x1b[31m",
}

func (s Style) paint(level Level, text string) string {
	if !s.Colour {
		return text
	}
	return colours[level] + text + "\x1b[0m"
}

// Text writes results for a person: the worst first, what is well in one line.
func Text(f Facts, results []Result, style Style) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\n%s\n", f.Topology.words(), counts(results))
	if who := f.whence(); who != "" {
		b.WriteString(explain.Wrap("", who, false))
	}
	var well, blind []string
	for _, level := range []Level{Critical, Warning, Advice, Unknown, OK} {
		for _, r := range results {
			switch {
			case r.Level != level:
			case level == OK && !style.Wide:
				well = append(well, r.ID)
			case level == Unknown && !style.Wide && !r.found():
				blind = append(blind, r.ID+": "+strings.Join(r.Unseen, "; "))
			default:
				r.write(&b, style)
			}
		}
	}
	if len(blind) > 0 {
		_, _ = fmt.Fprintf(&b, "\n%s\n", style.paint(Unknown, "UNKNOWN: it could not be checked"))
	}
	for _, line := range blind {
		b.WriteString(explain.Wrap("  ", "- "+line, false))
	}
	f.why(&b, results)
	if len(well) > 0 {
		b.WriteString("\n" + explain.Wrap("", style.paint(OK, "ok")+": "+strings.Join(well, ", "), false))
	}
	return b.String()
}

// why says what kept something from being seen, where something was not.
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
	b.WriteString("\nnot everything could be seen:\n")
	for _, line := range lines {
		b.WriteString(explain.Wrap("  ", "- "+line, false))
	}
}

// found reports whether there is more to say than that all is well.
func (r Result) found() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level != OK })
}

func (r Result) write(b *strings.Builder, style Style) {
	_, _ = fmt.Fprintf(b, "\n%s %s\n", style.paint(r.Level, strings.ToUpper(string(r.Level))), r.ID)
	b.WriteString(explain.Wrap("  ", r.should()+r.Title, false))
	for _, f := range r.Findings {
		if f.Level == OK && !style.Wide {
			continue
		}
		line := string(f.Level) + ": "
		if f.Level == r.Level {
			line = ""
		}
		if f.About != "" {
			line += f.About + ": "
		}
		b.WriteString(explain.Wrap("  ", "- "+line+f.Says, false))
	}
	if len(r.Unseen) > 0 {
		b.WriteString(explain.Wrap("  ", "- not seen: "+strings.Join(r.Unseen, "; "), false))
	}
	if style.Wide {
		b.WriteString(explain.Wrap("  ", "why: "+r.Why, false))
	}
	if r.Level == OK || r.Level == Unknown {
		return
	}
	for _, line := range r.Type {
		b.WriteString("  $ " + squeezed(line) + "\n")
	}
}

// should begins the sentence that a check has for what is well.
func (r Result) should() string {
	if r.Level == OK {
		return ""
	}
	return "should be so: "
}

// squeezed brings a command and its remark closer together than in the table,
// where remarks stand below each other.
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
	number := make(map[Level]int)
	for _, r := range results {
		number[r.Level]++
	}
	words := []string{sprintf("%d checks", len(results))}
	for _, level := range []Level{Critical, Warning, Advice, Unknown, OK} {
		if number[level] > 0 {
			words = append(words, sprintf("%d %s", number[level], level))
		}
	}
	return strings.Join(words, ", ")
}

// whence says how the facts of each host got here.
func (f Facts) whence() string {
	by := map[string][]string{}
	for _, h := range f.Hosts {
		word := map[Source]string{Here: "looked at here", Asked: "asked just now", Published: "as its agent published", Unasked: "not asked"}[h.Source]
		if h.Source == Published {
			word += sprintf(" %d minutes ago", int(f.At.Sub(h.To).Minutes()))
		}
		by[word] = append(by[word], h.Name)
	}
	var words []string
	for _, word := range slices.Sorted(maps.Keys(by)) {
		words = append(words, strings.Join(by[word], ", ")+": "+word)
	}
	return strings.Join(words, "; ")
}

// Explanation says everything that the table has on a check.
func (c Check) Explanation(style Style) string {
	b := &strings.Builder{}
	_, _ = fmt.Fprintf(b, "%s: %s\nfor %s\n\n", c.ID, c.Title, c.For)
	b.WriteString(explain.Wrap("  ", c.Why, style.Wide))
	if len(c.Type) > 0 {
		b.WriteString("\n")
	}
	for _, line := range c.Type {
		b.WriteString("  $ " + line + "\n")
	}
	return b.String()
}

// Table writes the table of checks as a part of docs/runbook/doctor.md.
func Table() string {
	var b strings.Builder
	for _, c := range Checks() {
		_, _ = fmt.Fprintf(&b, "\n### %s\n\n%s. *For %s.*\n\n%s\n", c.ID, capital(c.Title), c.For, c.Why)
		if len(c.Type) > 0 {
			b.WriteString("\n```\n" + strings.Join(c.Type, "\n") + "\n```\n")
		}
	}
	return b.String()
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
