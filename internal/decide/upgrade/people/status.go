package people

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// phases are those that a condition may name.
var phases = []cluster.Phase{cluster.Idle, cluster.Offered, cluster.Fetching, cluster.Checked, cluster.Hosts, cluster.Parts, cluster.Proving, cluster.Committing, cluster.Returning}

// Phase is how far the upgrade is, and why it is there: as the operator says it, and
// otherwise as the record and the hosts show it. It is empty if nobody knows.
func (u Upgrade) Phase() (phase cluster.Phase, why string) {
	if u.Unread != "" {
		return "", u.Unread
	}
	said, ok := u.condition(configv1.OperatorProgressing)
	phase = cluster.Phase(said.Reason)
	// A condition of before the record, or of before the wish, is of another time.
	idle := phase == cluster.Idle || phase == cluster.Offered
	rests := !u.asked() && u.offers() == ""
	if ok && slices.Contains(phases, phase) && idle == !u.Record.Started && (phase == cluster.Idle) == rests {
		return phase, said.Message
	}
	switch {
	case u.Record.Started:
		step := cluster.Next(u.site())
		return step.Phase, step.Why
	case u.Version == nil:
		return cluster.Idle, "the cluster has no ClusterVersion, so nobody can want an upgrade"
	case u.asked():
		return cluster.Offered, "holdfast-operator has not begun it yet"
	case u.offers() != "":
		step := cluster.Next(u.site())
		return step.Phase, step.Why
	}
	return cluster.Idle, "the site runs its release"
}

// Held is what holds an upgrade that is under way, as the operator says it: a gate, a
// host, or a person. It is empty if nothing does.
func (u Upgrade) Held() string {
	if c, ok := u.condition(clusterversion.Failing); ok && c.Status == configv1.ConditionTrue && u.asked() {
		return c.Message
	}
	if u.asked() && u.Wish.Paused != "" {
		return "paused: " + u.Wish.Paused
	}
	return ""
}

// Status is the state of an upgrade, or that there is none.
type Status struct {
	Phase cluster.Phase `json:"phase"`
	Why   string        `json:"why"`
	// Held says what holds it, Refused which wish does not count.
	Held    string `json:"held,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Upgrade identifies it. From and To are the digests of the two releases; while no
	// upgrade is under way, From is the release of the site, and To the wanted one.
	Upgrade string `json:"upgrade,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	// Offer is the digest of the release that hosts fetch and that nobody wants to be installed
	// yet; empty for none. Lacking are the hosts on which it does not lie whole.
	Offer   string   `json:"offer,omitempty"`
	Lacking []string `json:"lacking,omitempty"`
	// WayBack is open or closed while an upgrade is under way.
	WayBack string `json:"wayBack,omitempty"`
	// Soak says for how long the site was healthy of how long it is to be.
	Soak  string       `json:"soak,omitempty"`
	Hosts []HostStatus `json:"hosts"`
	// Says are sentences about hosts and data.
	Says    []string  `json:"says,omitempty"`
	History []Entry   `json:"history,omitempty"`
	At      time.Time `json:"at"`

	names map[string]string
	// again are commands for what failed, each with what it does.
	again [][2]string
}

// HostStatus is the state of one host.
type HostStatus struct {
	Name   string `json:"name"`
	Worker bool   `json:"worker,omitempty"`
	// Release is the digest of what runs there; empty if that is not known.
	Release string         `json:"release,omitempty"`
	Step    parachute.Step `json:"step,omitempty"`
	// Returns is when it returns by itself, unless it is accepted before.
	Returns time.Time `json:"returns,omitzero"`
	// Says is what else it tells: why it holds, why it went back, how far a fetch is.
	Says string `json:"says,omitempty"`
	// FetchFailed is true if its last fetch failed.
	FetchFailed bool `json:"fetchFailed,omitempty"`
}

// Entry is a line of the history.
type Entry struct {
	Release string    `json:"release"`
	State   string    `json:"state"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Risks   string    `json:"risks,omitempty"`
}

// Status returns the state of the upgrade.
func (u Upgrade) Status() Status {
	r := u.Record
	s := Status{Held: u.Held(), Refused: u.Refused(), Upgrade: r.Upgrade, From: u.Running, Hosts: []HostStatus{}, At: u.Now, names: map[string]string{}}
	s.Phase, s.Why = u.Phase()
	if u.asked() {
		s.To = cmp.Or(r.To, u.Wish.Release)
	}
	if s.Offer = u.offers(); s.Offer != "" {
		s.Lacking = u.site().Unfetched()
	}
	if r.Started {
		s.WayBack, s.Says = "open", cluster.Describe(u.site(), u.Name)
		if r.NoWayBack {
			s.WayBack = "closed"
		}
		if s.Phase == cluster.Proving {
			s.Soak = r.Healthy.Round(time.Second).String() + " of " + soakOf(Start{}, u)
			if u.SoakOff {
				s.Soak = r.Healthy.Round(time.Second).String() + "; an administrator ends it: holdfast upgrade commit"
			}
		}
	}
	if s.Held != "" {
		s.again = u.withoutBackup()
	}
	for _, h := range u.Hosts {
		s.Hosts = append(s.Hosts, hostStatus(h, u.Now))
	}
	if u.Version != nil {
		for _, h := range u.Version.Status.History {
			e := Entry{Release: h.Image, State: string(h.State), Started: h.StartedTime.Time, Risks: h.AcceptedRisks}
			if h.CompletionTime != nil {
				e.Ended = h.CompletionTime.Time
			}
			s.History = append(s.History, e)
			s.names[h.Image] = u.Name(Digest(h.Image))
		}
	}
	for _, d := range append(u.Digests(), s.From, s.To, s.Offer, "") {
		s.names[d] = u.Name(d)
	}
	return s
}

// offers returns the digest of the release that is offered; empty for none.
func (u Upgrade) offers() string { return u.site().Offers() }

// withoutBackup returns what a person may type where no good backup came of the wish for
// one: nothing tries again by itself before a day has passed.
func (u Upgrade) withoutBackup() [][2]string {
	f, known := u.facts(u.Record.To)
	if !known || !u.Record.Started || !f.Backups.Value.Wish.Failed {
		return nil
	}
	for _, g := range gate.Gates(f, shownAt(cluster.Stage(u.site()))) {
		if (g.ID == gate.BackupGate || g.ID == gate.BackupCommitGate) && g.Closed() && u.skipped(g) == "" {
			return [][2]string{
				{"holdfast backup now", "takes the backup anew, once you have mended what failed; the upgrade then goes on by itself"},
				{fmt.Sprintf("holdfast upgrade start %s --skip %s=REASON", u.Record.To, g.ID), "goes on without one"},
			}
		}
	}
	return nil
}

func hostStatus(h Host, now time.Time) HostStatus {
	told := h.Told.Value
	s := HostStatus{Name: h.Name, Worker: h.Worker, Step: told.Journal.Step, Says: h.Silent}
	if !h.Told.Known {
		return s
	}
	if r := h.running(); r.Known {
		s.Release = r.Value
	}
	if told.Journal.Step.Trying() && told.Journal.Deadline.After(now) {
		s.Returns = told.Journal.Deadline
	}
	var says []string
	if told.Held != "" {
		says = append(says, "held: "+told.Held)
	}
	if j := told.Journal; (j.Step == parachute.Returned || j.Step == parachute.Returning) && j.Why != "" {
		says = append(says, "went back: "+j.Why)
	}
	if told.FetchFailed != "" {
		says, s.FetchFailed = append(says, "cannot fetch: "+told.FetchFailed), true
	}
	if told.Fetching != "" {
		says = append(says, "fetches: "+told.Fetching)
	}
	s.Says = strings.Join(says, "; ")
	return s
}

// Text writes the state for people.
func (s Status) Text(style page.Style) string {
	p := &page.Writer{Style: style, Width: page.Broad}
	p.Printf("upgrade: %s  (%s)\n", p.Paint(page.Bold, string(cmp.Or(s.Phase, "unknown"))), s.At.UTC().Format("2006-01-02 15:04:05Z"))
	if s.Held != s.Why {
		p.Wrapped("  ", s.Why)
	}
	for _, l := range []struct{ what, text string }{{"Held", s.Held}, {"Refused", s.Refused}} {
		if l.text != "" {
			p.Wrapped("  ", p.Paint(page.Yellow, l.what)+": "+l.text)
		}
	}
	labels := [2]string{"  runs   ", "  wants  "}
	if s.WayBack != "" {
		labels = [2]string{"  from   ", "  to     "}
	}
	p.Beside(labels[0], s.names[s.From])
	if s.To != "" {
		p.Beside(labels[1], s.names[s.To])
	}
	if s.Offer != "" {
		p.Beside("  offered ", s.names[s.Offer])
	}
	if s.Soak != "" {
		p.Beside("  soak   ", "healthy for "+s.Soak)
	}
	s.hosts(p)
	if len(s.Says) > 0 { // what the last sentence says stands in no table
		p.Title("The way back")
		p.Wrapped("  ", s.Says[len(s.Says)-1])
	}
	s.typed(p)
	s.history(p)
	return p.String()
}

func (s Status) hosts(p *page.Writer) {
	p.Title("Hosts")
	rows := [][]string{{"HOST", "ROLE", "RELEASE", "STEP", "RETURNS BY ITSELF"}}
	for _, h := range s.Hosts {
		role, returns := "control plane", "-"
		if h.Worker {
			role = "worker"
		}
		if !h.Returns.IsZero() {
			returns = h.Returns.UTC().Format("15:04:05Z")
		}
		release := "unknown"
		if h.Release != "" {
			release = s.names[h.Release]
		}
		rows = append(rows, []string{h.Name, role, release, dash(string(h.Step)), returns})
	}
	p.Table(rows)
	for _, h := range s.Hosts {
		if h.Says != "" {
			p.Wrapped("    ", h.Name+": "+h.Says)
		}
	}
}

// typed writes what a person may type now.
func (s Status) typed(p *page.Writer) {
	lines := s.Commands()
	if len(lines) == 0 {
		return
	}
	p.Title("What to type")
	for _, l := range lines {
		p.Printf("  %s\n      %s\n", p.Paint(page.Bold, l[0]), l[1])
	}
}

// Commands are what a person may type now, each with what it does.
func (s Status) Commands() [][2]string {
	var out [][2]string
	if strings.HasPrefix(s.Held, "paused: ") {
		out = append(out, [2]string{"holdfast upgrade resume", "ends the pause"})
	}
	out = append(out, s.again...)
	switch {
	case s.WayBack == "open" && s.Phase == cluster.Returning:
		out = append(out, [2]string{"holdfast upgrade start " + s.To, "goes on to the new release after all"})
	case s.WayBack == "open":
		if s.Phase == cluster.Proving {
			out = append(out, [2]string{"holdfast upgrade commit", "closes the way back now"})
		}
		out = append(out, [2]string{"holdfast upgrade rollback", "takes the whole site back"})
	case s.To != "" && s.WayBack == "" && s.Phase != "":
		out = append(out, [2]string{"holdfast upgrade rollback", "takes the wish back"})
	case s.Offer != "" && len(s.Lacking) == 0:
		out = append(out, [2]string{"holdfast upgrade check " + s.Offer, "says what stands in its way"},
			[2]string{"holdfast upgrade start " + s.Offer + " --dry-run", "shows which host would follow which"})
	}
	return out
}

// shown is how many entries of the history people are shown; a wide page has all.
const shown = 5

func (s Status) history(p *page.Writer) {
	if len(s.History) == 0 {
		return
	}
	p.Title("History")
	for i, e := range s.History {
		if i == shown && !p.Wide {
			p.Printf("  (%d more: holdfast upgrade status -o wide)\n", len(s.History)-i)
			return
		}
		ended := ""
		if !e.Ended.IsZero() {
			ended = " to " + e.Ended.UTC().Format("2006-01-02 15:04Z")
		}
		p.Wrapped("  ", fmt.Sprintf("%s  %s%s  %s", e.State, e.Started.UTC().Format("2006-01-02 15:04Z"), ended, s.names[e.Release]))
		if e.Risks != "" {
			p.Wrapped("    ", "Accepted: "+e.Risks)
		}
	}
}

// Done reports whether what was begun is over as far as hosts are concerned: all of the
// site runs a release, and only the soak and the commit may be left.
func (s Status) Done(digest string) bool {
	if s.WayBack == "" {
		return s.From == digest && s.To == ""
	}
	return s.To == digest && (s.Phase == cluster.Proving || s.Phase == cluster.Committing)
}

// Changes says what is different in a later state, one sentence each, for readers who
// follow an upgrade. The mere passing of time is no change.
func (s Status) Changes(after Status) []string {
	var out []string
	if site := after.doing(); site != s.doing() {
		out = append(out, "site: "+site)
	}
	for _, h := range after.Hosts {
		i := slices.IndexFunc(s.Hosts, func(o HostStatus) bool { return o.Name == h.Name })
		line := after.doingOf(h)
		if i < 0 || s.doingOf(s.Hosts[i]) != line {
			out = append(out, h.Name+": "+line)
		}
	}
	return out
}

// doing says what the site does, without what changes by itself.
func (s Status) doing() string {
	why := cmp.Or(s.Refused, s.Held, s.Why)
	if s.Soak != "" && s.Held == "" && s.Refused == "" {
		why = "the way back is open"
	}
	return string(cmp.Or(s.Phase, "unknown")) + ": " + why
}

func (s Status) doingOf(h HostStatus) string {
	out := "runs " + cmp.Or(s.names[h.Release], "a release that is not known")
	if h.Step != "" {
		out += ", " + string(h.Step)
	}
	if h.Says != "" {
		out += ", " + h.Says
	}
	return out
}

// Doing says in a few words what the site and each host do, for a view that is redrawn.
func (s Status) Doing() (site string, hosts []string) {
	for _, h := range s.Hosts {
		hosts = append(hosts, s.doingOf(h))
	}
	return s.doing(), hosts
}
