package standing

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast/holdfast/internal/decide/explain"
)

// Style is how a text looks. Without colour nothing is missing: each word says
// what it says. Wide adds addresses, who said what, and whole reasons.
type Style = explain.Style

// Width is how wide a text is at most, but for words that are wider.
const Width = 100

// levelColour is that of a finding.
var levelColour = map[Level]string{Critical: explain.Red, Warning: explain.Yellow, Note: ""}

// page is a text that is being written.
type page struct {
	strings.Builder
	style Style
}

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// Text writes a view for a person: from what matters most to where it is from.
func Text(v View, style Style) string {
	p := &page{style: style}
	p.printf("%s: %s  (%s)\n", p.style.Paint(explain.Bold, v.Cluster), p.style.Paint(v.Status.Colour(), string(v.Status)), v.At.UTC().Format("2006-01-02 15:04:05Z"))
	p.wrapped("  ", v.Summary)
	p.redundancy(v.Redundancy)
	p.findings(v.Findings)
	p.hosts(v)
	p.fencing(v.Fencing)
	p.vips(v.VIPs)
	p.incidents(v.Incidents)
	p.sources(v.Sources)
	return p.String()
}

func (p *page) title(text string) { p.printf("\n%s\n", p.style.Paint(explain.Bold, text)) }

func (p *page) redundancy(r Redundancy) {
	p.title("Redundancy")
	p.wrapped("  ", capital(r.Sentence)+".")
	if r.Survives == Yes && !p.style.Wide {
		return
	}
	for _, l := range r.Losses {
		p.wrapped("    ", "If "+l.Host+" is lost: "+l.Words()+".")
		if p.style.Wide && l.Detail != "" {
			p.wrapped("      ", "All of it: "+l.Detail)
		}
	}
}

// Words is what a loss comes to.
func (l Loss) Words() string {
	switch {
	case l.Survives == Yes && l.Because == "":
		return "the rest goes on by itself"
	case l.Survives == Yes:
		return "the rest goes on by itself, " + l.Because
	case l.Survives == Unknown:
		return "not known"
	case l.Because == "":
		return "the cluster stops"
	case l.Because == lostAlready:
		return l.Because
	}
	return "the cluster stops, because " + l.Because
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (p *page) findings(list []Finding) {
	p.title("What to do")
	if len(list) == 0 {
		p.printf("  Nothing.\n")
	}
	for i, f := range list {
		p.wrapped("  ", fmt.Sprintf("%d. %s: %s", i+1, p.style.Paint(levelColour[f.Level], string(f.Level)), f.What))
		if f.Means != "" {
			p.wrapped("     ", "Means: "+f.Means)
		}
		if f.Type != "" {
			on := ""
			if f.On != "" {
				on = " on " + f.On
			}
			p.printf("     Type%s: %s\n", on, p.style.Paint(explain.Bold, f.Type))
		}
		if f.Page != "" {
			p.printf("     Read: %s\n", f.Page)
		}
	}
}

func (p *page) hosts(v View) {
	p.title("Hosts")
	if len(v.Hosts) == 0 {
		p.printf("  Nobody told of any.\n")
		return
	}
	two := false
	for _, h := range v.Hosts {
		two = two || h.Record.Text != ""
	}
	heads := []string{"NAME", "ROLE", "POWER", "KUBELET"}
	if two {
		heads = append(heads, "RECORD")
	}
	heads = append(heads, "ETCD", "LAG")
	if p.style.Wide {
		heads = append(heads, "ADDRESSES")
	}
	rows := [][]string{heads}
	for _, h := range v.Hosts {
		row := []string{h.Name, h.Role, h.Power.Text, h.Kubelet.Text}
		if two {
			row = append(row, dash(h.Record.Text))
		}
		row = append(row, dash(h.Etcd.Text), dash(h.Lag.Text))
		if p.style.Wide {
			row = append(row, dash(strings.Join(h.Addresses, " ")))
		}
		rows = append(rows, row)
	}
	p.table(rows)
	if p.style.Wide {
		for _, h := range v.Hosts {
			p.said(h)
		}
	}
}

// said is who said what about a host, and when.
func (p *page) said(h HostLine) {
	for _, c := range []struct {
		name string
		cell Cell
	}{{"power", h.Power}, {"kubelet", h.Kubelet}, {"record", h.Record}, {"etcd", h.Etcd}} {
		if c.cell.From == "" {
			continue
		}
		at := ""
		if !c.cell.At.IsZero() {
			at = ", as of " + c.cell.At.UTC().Format("15:04:05Z")
		}
		p.wrapped("    ", fmt.Sprintf("%s, %s: told by %s%s", h.Name, c.name, c.cell.From, at))
	}
	if h.Doing != "" {
		p.wrapped("    ", h.Name+": "+h.Doing)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (p *page) fencing(list []FencingLine) {
	if len(list) == 0 {
		return
	}
	p.title("Fencing")
	for _, f := range list {
		p.wrapped("  ", f.Host+": "+f.Able.Text+". Verified: "+f.Verified.Text+". Last fence: "+f.Last.Text+".")
	}
}

func (p *page) vips(list []VIPLine) {
	if len(list) == 0 {
		return
	}
	p.title("Virtual IPs")
	rows := [][]string{{"ADDRESS", "FOR", "HOLDER"}}
	for _, v := range list {
		rows = append(rows, []string{v.Address, v.Kind, v.Holder.Text})
	}
	p.table(rows)
}

func (p *page) incidents(list []Incident) {
	if len(list) == 0 {
		return
	}
	p.title("Last incidents")
	for _, i := range list {
		p.wrapped("  ", fmt.Sprintf("%s %s (%s)", i.At.UTC().Format("2006-01-02 15:04:05Z"), i.Summary, i.Kind))
	}
	p.printf("  More: holdfast incidents show 1\n")
}

func (p *page) sources(list []SourceLine) {
	p.title("Seen by")
	for _, s := range list {
		p.wrapped("  ", s.Name+": "+s.Text)
		for _, l := range s.Limits {
			p.wrapped("    ", "not seen: "+l)
		}
	}
}

// table writes rows in columns that are as wide as what is in them. What does
// not fit is cut, unless the text is wide.
func (p *page) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	if !p.style.Wide {
		narrow(widths)
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			line.WriteString("  " + fit(c, widths[i]))
		}
		p.printf("%s\n", strings.TrimRight(line.String(), " "))
	}
}

// narrow takes from the widest column until the line fits.
func narrow(widths []int) {
	for {
		sum, widest := 0, 0
		for i, w := range widths {
			sum += w + 2
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= Width {
			return
		}
		widths[widest]--
	}
}

// fit makes a text as wide as a column.
func fit(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s + strings.Repeat(" ", width-n)
	}
	runes := []rune(s)
	return string(runes[:max(width-3, 0)]) + "..."
}

// wrapped breaks a text at blanks; what follows a break is indented further.
func (p *page) wrapped(indent, text string) {
	line, empty := indent, true
	for word := range strings.FieldsSeq(text) {
		if !empty && seen(line)+1+seen(word) > Width {
			p.printf("%s\n", line)
			line, empty = indent+"  ", true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	p.printf("%s\n", line)
}

// seen is how wide a text is on a terminal.
func seen(s string) int {
	for _, c := range []string{explain.Bold, explain.Green, explain.Yellow, explain.Red, explain.Plain} {
		s = strings.ReplaceAll(s, c, "")
	}
	return utf8.RuneCountInString(s)
}
