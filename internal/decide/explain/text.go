package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
)

// Style is how a text looks. Its zero value is plain and wraps at 80 columns.
type Style struct {
	// Colour marks what matters with the escapes of terminals.
	Colour bool
	// Wide leaves long lines as they are and adds what only few look for.
	Wide bool
}

const textWidth = 80

// What a terminal is told: a colour or weight, and Plain after it.
const (
	Bold   = "\x1b[1m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Red    = "\x1b[31m"
	Plain  = "\x1b[0m"
)

// Colour is that of a status, empty for none.
func (s Status) Colour() string {
	switch s {
	case Healthy:
		return Green
	case Degraded, Waiting, Stopped:
		return Yellow
	case NeedsHuman, Unknown:
		return Red
	case Unmanaged:
	}
	return ""
}

// Paint gives a text a colour, where the style has any.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" {
		return text
	}
	return colour + text + Plain
}

// page is a text that is being written.
type page struct {
	strings.Builder
	style Style
}

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// Text writes an explanation for a person.
func Text(e Explanation, style Style) string {
	p := &page{style: style}
	p.head(e)
	p.section("Why", p.why(e))
	p.section("Whose data are newer", list(e.Data))
	p.section("Problems", e.Problems)
	p.section("Evidence", e.Evidence)
	p.section("Not seen", e.Limits)
	p.advice(e)
	if style.Wide {
		p.section("Record", recordLines(e))
	}
	return p.String()
}

func (p *page) head(e Explanation) {
	name := e.Host
	if name == "" {
		name = "this host"
	}
	since := ""
	if e.SinceSeconds > 0 {
		since = " for " + Ago(time.Duration(e.SinceSeconds*float64(time.Second)))
	}
	p.printf("%s: %s%s\n", p.style.Paint(Bold, "etcd on "+name), p.style.Paint(e.Status.Colour(), string(e.Status)), since)
	p.wrapped("  ", e.Summary)
	switch e.Source {
	case FromFiles:
		if e.Status == Unmanaged {
			return
		}
		p.wrapped("  ", "The agent of etcd (podman-etcd) does not answer: this is what its files say.")
	case FromSnapshot:
		p.wrapped("  ", "Decided on a recorded snapshot, not on this host as it is now.")
	case FromAgent:
	}
}

func (p *page) why(e Explanation) []string {
	if e.Rule == "" {
		return nil
	}
	rule := "rule " + e.Rule + ", action " + string(e.Action)
	if p.style.Wide {
		rule += ruleWords(e.Rule)
	}
	return []string{e.Reason, rule}
}

// ruleWords says when a rule applies.
func ruleWords(id string) string {
	for _, r := range etcdmember.Rules() {
		if r.ID == id {
			return " (" + r.Section + ": " + r.When + ")"
		}
	}
	return ""
}

func list(line string) []string {
	if line == "" {
		return nil
	}
	return []string{line}
}

func (p *page) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.title(title)
	for _, line := range lines {
		p.wrapped("  ", line)
	}
}

func (p *page) title(text string) { p.printf("\n%s\n", p.style.Paint(Bold, text)) }

func (p *page) advice(e Explanation) {
	if len(e.Next) == 0 {
		return
	}
	p.title("What may be done")
	for _, a := range e.Next {
		if a.Command == "" {
			p.wrapped("  ", a.Does)
			continue
		}
		p.printf("  %s\n", p.style.Paint(Bold, a.Command))
		p.wrapped("      ", a.Does)
	}
}

func recordLines(e Explanation) []string {
	if e.Record == nil {
		return []string{"unreadable"}
	}
	r := *e.Record
	out := []string{fmt.Sprintf("%s, write %d, member %s of cluster %s%s", r.State, r.Seq, r.Member, r.Cluster, written(r))}
	if r.TakeOver.ID != "" {
		out = append(out, fmt.Sprintf("take-over %d, %s", r.TakeOver.Counter, r.TakeOver.ID))
	}
	if r.Proof.Kind != "" {
		out = append(out, "proof: "+string(r.Proof.Kind)+", "+r.Proof.Detail)
	}
	if r.Forced.Who != "" {
		out = append(out, "forced by "+r.Forced.Who+": "+r.Forced.Why)
	}
	return out
}

// wrapped writes a line behind an indent; what follows a break is indented
// further.
func (p *page) wrapped(indent, text string) {
	p.WriteString(Wrap(indent, text, p.style.Wide))
}

// Wrap breaks a text at blanks so that no line is wider than a page, unless it
// is wide or a word is.
func Wrap(indent, text string, wide bool) string {
	if wide {
		return indent + text + "\n"
	}
	var out strings.Builder
	line := indent
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > textWidth {
			out.WriteString(line + "\n")
			line, empty = indent+"  ", true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return out.String() + line + "\n"
}
