package people

import (
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Check is what stands in the way of an upgrade.
type Check struct {
	// Release is the digest that was asked about, empty for any next release; Name
	// names it.
	Release string `json:"release,omitempty"`
	Name    string `json:"name,omitempty"`
	// At says for which moment the gates were asked.
	At    string     `json:"at"`
	Gates []GateLine `json:"gates"`
	// Upgradeable is what holdfast-operator says of an upgrade to the next minor
	// release: True, False or Unknown; empty if it says nothing. Message is why.
	Upgradeable string `json:"upgradeable,omitempty"`
	Message     string `json:"message,omitempty"`
	// Unseen is true if the release lies on no host, so that nobody looked into it.
	Unseen bool `json:"unseen,omitempty"`
	// Notes say what was not looked at.
	Notes []string `json:"notes,omitempty"`
}

// GateLine is what one gate says.
type GateLine struct {
	Gate     gate.ID       `json:"gate"`
	Verdict  gate.Verdict  `json:"verdict"`
	Severity gate.Severity `json:"severity"`
	Host     string        `json:"host,omitempty"`
	Why      string        `json:"why,omitempty"`
	Way      string        `json:"way,omitempty"`
	// Skipped is the reason with which an administrator skips it.
	Skipped string `json:"skipped,omitempty"`
	// By is holdfast-operator where only the operator knows what the gate asks.
	By string `json:"by,omitempty"`
}

// holds reports whether the gate keeps an upgrade from going on.
func (g GateLine) holds() bool {
	return g.Verdict != gate.OK && g.Severity != gate.Advice && g.Skipped == ""
}

// theOperator knows more than a command: it asks etcd, Pacemaker and API servers.
const theOperator = "holdfast-operator"

// Check asks the gates about a release, or about any next one if digest is empty.
func (u Upgrade) Check(digest string) Check {
	if digest == "" && u.Wish.Release != u.Running {
		digest = u.Wish.Release
	}
	if digest == "" {
		digest = u.offers()
	}
	stage := gate.Begin
	if u.Record.Started {
		stage = cluster.Stage(u.site())
	}
	c := Check{Release: digest, At: moments[stage], Gates: []GateLine{}}
	if digest != "" {
		c.Name = u.Name(digest)
	}
	upgradeable, said := u.condition(configv1.OperatorUpgradeable)
	if said {
		c.Upgradeable, c.Message = string(upgradeable.Status), upgradeable.Message
	} else {
		c.Notes = append(c.Notes, "holdfast-operator says nothing of the present state; what only it knows is unknown")
	}
	if u.Unread != "" {
		c.Notes = append(c.Notes, u.Unread)
	}
	f, known := u.facts(digest)
	if !known {
		c.Notes = append(c.Notes, "no host describes the release that the site runs, so no gate was asked")
		return c
	}
	if c.Unseen = digest != "" && digest != f.From.Digest && f.To == nil; c.Unseen {
		c.Notes = append(c.Notes, c.Name+" lies on no host yet, so what is in it was not looked at: the gates ask about any next release")
	}
	for _, g := range gate.Gates(f, shownAt(stage)) {
		l := GateLine{Gate: g.ID, Verdict: g.Verdict, Severity: g.Severity, Host: g.Host, Why: g.Why, Way: g.Way}
		if l.Verdict == gate.Unknown && said && upgradeable.Status == configv1.ConditionTrue && stage == gate.Begin && answered(g.ID, f) {
			l.Verdict, l.Host, l.Why, l.Way, l.By = gate.OK, "", "", "", theOperator
		}
		l.Skipped = u.skipped(g)
		if !slices.Contains(c.Gates, l) {
			c.Gates = append(c.Gates, l)
		}
	}
	return c
}

// answered reports whether the operator, which asked with all facts about any next release,
// has answered a gate for the offered one too.
func answered(id gate.ID, f gate.Facts) bool {
	switch {
	case f.To == nil:
		return true
	case id == "etcd-version":
		return f.To.Etcd.Series() == f.From.Etcd.Series() && f.To.LeastEtcd.Compare(f.From.LeastEtcd) <= 0
	case id == "stored-versions":
		return !slices.ContainsFunc(f.From.StoredVersions, func(v string) bool { return !slices.Contains(f.To.StoredVersions, v) })
	}
	return true
}

// moments says when the gates of a stage are asked.
var moments = map[gate.Stage]string{
	gate.Begin: "before the first host", gate.Between: "before the next host", gate.Bring: "before the next part", gate.Commit: "before the commit", gate.Close: "before the commit",
}

// shownAt returns the stages whose gates people are shown in a stage: before the commit also
// those that hold nothing else.
func shownAt(stage gate.Stage) gate.Stage {
	if stage == gate.Commit {
		return gate.Commit | gate.Close
	}
	return stage
}

// toldOfBackups returns what control planes tell of their backups.
func (u Upgrade) toldOfBackups() survey.Told {
	out := survey.Told{Site: backup.Site{Now: u.Now}, Ready: map[string]bool{}}
	for _, h := range u.Hosts {
		if !h.Worker {
			out.Hosts = append(out.Hosts, h.Backups)
			out.Ready[h.Name] = state.Is(h.Ready, true)
		}
	}
	return out
}

// skipped returns the reason for which a gate is skipped, if that counts.
func (u Upgrade) skipped(g gate.Gate) string {
	for _, o := range u.Overrides {
		if j := gate.Judge([]gate.Gate{g}, []gate.Override{{Gate: o.Gate, Reason: o.Reason, By: o.By, At: o.At}}); len(j.Skipped) > 0 {
			return o.Reason
		}
	}
	return ""
}

// facts returns what the API has of the facts of the gates; known is false if it is not
// even known which release the site runs. To stays nil while no host has the release.
func (u Upgrade) facts(digest string) (f gate.Facts, known bool) {
	from, known := u.Release(u.Running)
	f = gate.Facts{Now: u.Now, From: from, Level: gate.Version{Major: from.Kubernetes.Major, Minor: from.Kubernetes.Minor}, Soak: u.Soak}
	if u.SoakOff {
		f.Soak = 0
	}
	if to, has := u.Release(digest); has && digest != from.Digest {
		f.To = &to
	}
	if u.Unread == "" {
		f.Upgrade = state.Known("")
		if u.Record.Started {
			f.Upgrade.Value = u.Record.To
		}
	}
	f.Plan = u.Plan
	f.Backups = u.toldOfBackups().Backups(u.site(), u.Running)
	for _, h := range u.Hosts {
		host := h.Told.Value.Facts
		host.Name, host.Worker, host.Ready = h.Name, h.Worker, h.Ready
		host.Release = h.running()
		if !host.Kubelet.Known {
			host.Kubelet = h.Kubelet
		}
		if host.Whole.Known {
			whole := []string{}
			for _, d := range host.Whole.Value {
				whole = append(whole, Digest(d))
			}
			host.Whole = state.Known(whole)
		}
		f.Hosts = append(f.Hosts, host)
	}
	return f, known
}

// SkippableGates lists the gates that an administrator can skip, in their order.
func SkippableGates() []string {
	var out []string
	for _, g := range gate.Gates(gate.Facts{}, gate.Begin|gate.Between|gate.Bring|gate.Commit|gate.Close) {
		if g.Severity == gate.May && !slices.Contains(out, string(g.ID)) {
			out = append(out, string(g.ID))
		}
	}
	return out
}

// ParseSkip reads GATE=REASON, and refuses what gate.Judge would refuse.
func ParseSkip(text, by string, at time.Time) (annotation.Override, error) {
	id, reason, ok := strings.Cut(text, "=")
	o := annotation.Override{Gate: gate.ID(id), Reason: strings.TrimSpace(reason), By: by, At: at.UTC().Truncate(time.Second)}
	if !ok || o.Reason == "" {
		return o, fmt.Errorf("--skip %q: must be GATE=REASON; the reason is kept in the history", text)
	}
	if j := gate.Judge(nil, []gate.Override{{Gate: o.Gate, Reason: o.Reason, By: o.By, At: o.At}}); len(j.Refused) > 0 {
		_, why, _ := strings.Cut(j.Refused[0], "]: ")
		return o, fmt.Errorf("--skip %s: %s", id, why)
	}
	return o, nil
}

// Worst is what the gates come to.
type Worst string

// What gates come to, the best first.
const (
	Open Worst = "open"
	// Unknown: a gate could not be asked.
	Unknown Worst = "unknown"
	// Skippable: only gates are closed that an administrator may skip, or those that
	// the operator alone knows of.
	Skippable Worst = "skippable"
	// Waits: what is closed opens by itself.
	Waits Worst = "waits"
	// Person: a gate is closed that nobody skips, and somebody has to act.
	Person Worst = "person"
)

// ranks are what gates come to, as the exit codes rank them.
var ranks = []Worst{Open, Unknown, Skippable, Waits, Person}

// Worst returns the worst of what the gates say.
func (c Check) Worst() Worst {
	at := 0
	raise := func(is bool, to Worst) {
		if is {
			at = max(at, slices.Index(ranks, to))
		}
	}
	raise(len(c.Gates) == 0 || c.Unseen, Unknown)
	raise(c.Upgradeable == string(configv1.ConditionFalse), Skippable)
	for _, g := range c.Gates {
		if !g.holds() {
			continue
		}
		raise(g.Verdict == gate.Unknown, Unknown)
		raise(g.Verdict != gate.Unknown && g.Severity == gate.May, Skippable)
		raise(g.Verdict == gate.Wait && g.Severity == gate.Must, Waits)
		raise(g.Verdict == gate.Block && g.Severity == gate.Must, Person)
	}
	return ranks[at]
}

// holding returns the gates that hold an upgrade, as sentences.
func (c Check) holding() []string {
	var out []string
	for _, g := range c.Gates {
		if g.holds() && g.Verdict != gate.Unknown {
			out = append(out, gate.Gate{ID: g.Gate, Host: g.Host, Why: g.Why}.String())
		}
	}
	return out
}

// Text writes a check for people: what holds an upgrade first, and the open gates in one
// line. A wide style has all of them in one table.
func (c Check) Text(style page.Style) string {
	p := &page.Writer{Style: style, Width: page.Broad}
	what := "an upgrade to any next release"
	if c.Release != "" {
		what = "an upgrade to " + c.Name
	}
	p.Wrapped("", fmt.Sprintf("What stands in the way of %s, %s:", what, c.At))
	if style.Wide {
		c.table(p)
	} else {
		c.closed(p)
	}
	if c.Upgradeable != "" {
		p.Title("holdfast-operator says")
		p.Wrapped("  ", strings.TrimSuffix("Upgradeable "+c.Upgradeable+": "+c.Message, ": "))
	}
	for _, n := range c.Notes {
		p.Wrapped("", "note: "+n+".")
	}
	return p.String()
}

// groups are the gates that hold, in the order in which people read them.
var groups = []struct {
	title string
	in    func(GateLine) bool
}{
	{"Nobody can skip these", func(g GateLine) bool { return g.holds() && g.Verdict != gate.Unknown && g.Severity == gate.Must }},
	{"An administrator can skip these, with a reason: --skip GATE=REASON", func(g GateLine) bool { return g.holds() && g.Verdict != gate.Unknown && g.Severity == gate.May }},
	{"Skipped", func(g GateLine) bool { return g.Skipped != "" }},
	{"Advice, which keeps nobody from anything", func(g GateLine) bool {
		return (g.Verdict == gate.Wait || g.Verdict == gate.Block) && g.Severity == gate.Advice
	}},
}

func (c Check) closed(p *page.Writer) {
	for _, group := range groups {
		titled := false
		for _, g := range c.Gates {
			if !group.in(g) {
				continue
			}
			if !titled {
				p.Title(group.title)
				titled = true
			}
			p.Wrapped("  ", fmt.Sprintf("%s %s", p.Paint(colour(g.Verdict), string(g.Verdict)), gate.Gate{ID: g.Gate, Host: g.Host, Why: g.Why}))
			if g.Skipped != "" {
				p.Wrapped("    ", "Skipped: "+g.Skipped)
			} else if g.Way != "" {
				p.Wrapped("    ", g.Way+".")
			}
		}
	}
	c.names(p, "Not known here, and with -o wide in words", func(g GateLine) bool { return g.holds() && g.Verdict == gate.Unknown })
	c.names(p, "Open", func(g GateLine) bool { return g.Verdict == gate.OK })
}

// names writes a list of gates.
func (c Check) names(p *page.Writer, title string, in func(GateLine) bool) {
	var out []string
	for _, g := range c.Gates {
		if in(g) && !slices.Contains(out, string(g.Gate)) {
			out = append(out, string(g.Gate))
		}
	}
	if len(out) > 0 {
		p.Title(title)
		p.Wrapped("  ", strings.Join(out, ", "))
	}
}

func (c Check) table(p *page.Writer) {
	rows := [][]string{{"GATE", "VERDICT", "SEVERITY", "HOST", "WHY", "WAY"}}
	for _, g := range c.Gates {
		verdict, way := string(g.Verdict), g.Way
		if g.By != "" {
			verdict += ", by " + g.By
		}
		if g.Skipped != "" {
			way = "skipped: " + g.Skipped
		}
		rows = append(rows, []string{string(g.Gate), verdict, string(g.Severity), dash(g.Host), dash(g.Why), dash(way)})
	}
	p.Table(rows)
}

func colour(v gate.Verdict) page.Colour {
	return map[gate.Verdict]page.Colour{gate.OK: page.Green, gate.Wait: page.Yellow, gate.Unknown: page.Yellow, gate.Block: page.Red}[v]
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
