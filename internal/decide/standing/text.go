package standing

import (
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// text is a view that is being written.
type text struct{ page.Writer }

// Text writes a view for people, from what matters most down to the sources.
func Text(v View, style page.Style) string {
	p := &text{page.Writer{Style: style, Width: page.Broad}}
	p.Printf("%s: %s  (%s)\n", p.Paint(page.Bold, v.Cluster), p.Paint(v.Status.Colour(), string(v.Status)), v.At.UTC().Format("2006-01-02 15:04:05Z"))
	p.Wrapped("  ", v.Summary)
	p.redundancy(v.Redundancy)
	p.findings(v.Findings)
	p.hosts(v)
	p.upgrade(v.Upgrade)
	p.backup(v.Backup)
	p.fencing(v.Fencing)
	p.vips(v.VIPs)
	p.incidents(v.Incidents)
	p.sources(v.Sources)
	return p.String()
}

func (p *text) redundancy(r Redundancy) {
	p.Title("Redundancy")
	p.Wrapped("  ", page.Capital(r.Sentence)+".")
	if r.Survives == Yes && !p.Wide {
		return
	}
	for _, l := range r.Losses {
		p.Wrapped("    ", "If "+l.Host+" is lost: "+l.Words()+".")
		if p.Wide && l.Detail != "" {
			p.Wrapped("      ", "All reasons: "+l.Detail)
		}
	}
}

// Words describes what a loss leads to.
func (l Loss) Words() string {
	switch {
	case l.Survives == Yes && l.Because == "":
		return "the rest continues by itself"
	case l.Survives == Yes:
		return "the rest continues by itself, " + l.Because
	case l.Survives == Unknown:
		return "unknown"
	case l.Because == "":
		return "the cluster stops"
	case l.Because == lostAlready:
		return l.Because
	}
	return "the cluster stops, because " + l.Because
}

func (p *text) findings(list []finding.Finding) {
	p.Title("What to do")
	if len(list) == 0 {
		p.Printf("  Nothing.\n")
	}
	for i, f := range list {
		p.Wrapped("  ", fmt.Sprintf("%d. %s: %s", i+1, p.Paint(f.Severity.Colour(), string(f.Severity)), f.Problem))
		if f.Meaning != "" {
			p.Wrapped("     ", "Means: "+f.Meaning)
		}
		for _, c := range f.Commands {
			on := ""
			if c.Host != "" {
				on = " on " + c.Host
			}
			p.Printf("     Type%s: %s\n", on, p.Paint(page.Bold, c.Line))
		}
		if f.Page != "" {
			p.Printf("     Read: %s\n", f.Page)
		}
	}
}

func (p *text) hosts(v View) {
	p.Title("Hosts")
	if len(v.Hosts) == 0 {
		p.Printf("  No source reported any host.\n")
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
	if p.Wide {
		heads = append(heads, "ADDRESSES")
	}
	rows := [][]string{heads}
	for _, h := range v.Hosts {
		row := []string{h.Name, h.Role, h.Power.Text, h.Kubelet.Text}
		if two {
			row = append(row, dash(h.Record.Text))
		}
		row = append(row, dash(h.Etcd.Text), dash(h.Lag.Text))
		if p.Wide {
			row = append(row, dash(strings.Join(h.Addresses, " ")))
		}
		rows = append(rows, row)
	}
	p.Table(rows)
	if p.Wide {
		for _, h := range v.Hosts {
			p.said(h)
		}
	}
}

// said lists the source and time of each statement about a host.
func (p *text) said(h HostLine) {
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
		p.Wrapped("    ", fmt.Sprintf("%s, %s: reported by %s%s", h.Name, c.name, c.cell.From, at))
	}
	if h.Doing != "" {
		p.Wrapped("    ", h.Name+": "+h.Doing)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (p *text) fencing(list []FencingLine) {
	if len(list) == 0 {
		return
	}
	p.Title("Fencing")
	for _, f := range list {
		p.Wrapped("  ", f.Host+": "+f.Able.Text+". Verified: "+f.Verified.Text+". Last fence: "+f.Last.Text+".")
	}
}

func (p *text) vips(list []VIPLine) {
	if len(list) == 0 {
		return
	}
	p.Title("Virtual IPs")
	rows := [][]string{{"ADDRESS", "FOR", "HOLDER"}}
	for _, v := range list {
		rows = append(rows, []string{v.Address, v.Kind, v.Holder.Text})
	}
	p.Table(rows)
}

func (p *text) incidents(list []Incident) {
	if len(list) == 0 {
		return
	}
	p.Title("Last incidents")
	for _, i := range list {
		p.Wrapped("  ", fmt.Sprintf("%s %s (%s)", i.At.UTC().Format("2006-01-02 15:04:05Z"), i.Summary, i.Kind))
	}
	p.Printf("  More: holdfast incidents show 1\n")
}

func (p *text) sources(list []SourceLine) {
	p.Title("Seen by")
	for _, s := range list {
		p.Wrapped("  ", s.Name+": "+s.Text)
		for _, l := range s.Limits {
			p.Wrapped("    ", "not read: "+l)
		}
	}
}
