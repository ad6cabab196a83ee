package explain

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// Colour returns the colour of a status, empty for none.
func (s Status) Colour() page.Colour {
	switch s {
	case Healthy:
		return page.Green
	case Degraded, Waiting, Stopped:
		return page.Yellow
	case NeedsHuman, Unknown:
		return page.Red
	case Unmanaged:
	}
	return page.None
}

// text is an explanation that is being written.
type text struct{ page.Writer }

// Text writes an explanation for an administrator.
func Text(e Explanation, style page.Style) string {
	p := &text{page.Writer{Style: style, Width: page.Narrow}}
	if style.Wide {
		p.Width = 0
	}
	p.head(e)
	p.section("Why", p.why(e))
	p.section("Whose data are newer", list(e.Data))
	p.section("Problems", e.Problems)
	p.section("Evidence", e.Evidence)
	p.section("Not seen", e.Limits)
	p.advice(e)
	if style.Wide && e.Status != Unmanaged {
		p.section("Record", recordLines(e))
	}
	return p.String()
}

func (p *text) head(e Explanation) {
	name := e.Host
	if name == "" {
		name = "this host"
	}
	since := ""
	if e.SinceSeconds > 0 {
		since = " for " + page.Duration(time.Duration(e.SinceSeconds*float64(time.Second)))
	}
	p.Printf("%s: %s%s\n", p.Paint(page.Bold, "etcd on "+name), p.Paint(e.Status.Colour(), string(e.Status)), since)
	p.Wrapped("  ", e.Summary)
	switch e.Source {
	case FromFiles:
		if e.Status == Unmanaged {
			return
		}
		p.Wrapped("  ", "The etcd keeper (podman-etcd) does not answer: what follows comes from its files.")
	case FromSnapshot:
		p.Wrapped("  ", "Based on a recorded snapshot, not on the present state of this host.")
	case FromAgent:
	}
}

func (p *text) why(e Explanation) []string {
	if e.Rule == "" {
		return nil
	}
	rule := "rule " + e.Rule + ", action " + string(e.Action)
	if p.Wide {
		rule += ruleWords(e.Rule)
	}
	return []string{e.Reason, rule}
}

// ruleWords returns the condition of a rule.
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

func (p *text) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.Title(title)
	for _, line := range lines {
		p.Wrapped("  ", line)
	}
}

func (p *text) advice(e Explanation) {
	if len(e.Next) == 0 {
		return
	}
	p.Title("What may be done")
	for _, a := range e.Next {
		if a.Command == "" {
			p.Wrapped("  ", a.Does)
			continue
		}
		p.Printf("  %s\n", p.Paint(page.Bold, a.Command))
		p.Wrapped("      ", a.Does)
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
