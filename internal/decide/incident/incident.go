package incident

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// State is the progress of an incident.
type State string

// The states.
const (
	UnderWay State = "under-way"
	Waiting  State = "waits-for-a-person"
	Over     State = "over"
)

// Cause is the cause of a failure, as far as both journals show it.
type Cause string

// The causes.
const (
	Planned  Cause = "planned"        // Pacemaker stopped the host, or its etcd, in order
	Lost     Cause = "host-lost"      // the host stopped without notice: power, kernel, hardware
	Cut      Cause = "network-cut"    // both hosts ran and did not see each other
	Gone     Cause = "host-gone"      // lost or cut off: its own journal is missing
	Rebooted Cause = "host-restarted" // nobody saw it go
	Started  Cause = "both-started"   // both had been off
	Trouble  Cause = "etcd-trouble"   // the two saw each other, and etcd did not go on
	CopyLost Cause = "copy-lost"      // the host ran, and etcd could not run from its data directory: lost, damaged, or its disk full
)

// Phase is a step of what follows a failure.
type Phase string

// The phases, in their usual order.
const (
	PhaseLost    Phase = "lost"
	PhaseFenced  Phase = "fenced"
	PhasePerson  Phase = "person"
	PhaseDecided Phase = "decided"
	PhaseEtcd    Phase = "etcd"
	PhaseClients Phase = "clients"
	PhaseAPI     Phase = "api"
	PhaseVIP     Phase = "vip"
	PhasePods    Phase = "pods"
	PhaseBack    Phase = "back"
	PhaseVoters  Phase = "two-voters"
)

// Moment is the end of a phase, and what shows it.
type Moment struct {
	Phase Phase `json:"phase"`
	// At is zero if the end was not seen, or the phase was not needed.
	At time.Time `json:"at,omitzero"`
	// After is the time from the failure to At.
	After time.Duration `json:"afterNanoseconds,omitempty"`
	// Host is the host or machine that saw it.
	Host  string `json:"host,omitempty"`
	Words string `json:"words"`
}

// Failure is one fault or planned stop, and what followed.
type Failure struct {
	// Hosts lists the hosts that were lost or left; By is the host that went
	// on.
	Hosts []string `json:"hosts,omitempty"`
	By    string   `json:"by,omitempty"`
	Cause Cause    `json:"cause"`
	// Why says for what a host left in order, by its own decision; empty if it did not
	// decide that, or nobody knows.
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at"`
	Moments []Moment  `json:"moments"`
}

// Step is one line of the timeline.
type Step struct {
	At   time.Time `json:"at"`
	Host string    `json:"host"`
	Text string    `json:"text"`
	From string    `json:"from"`
}

// Incident covers everything from the first failure until both hosts were whole
// again. Another failure before that belongs to the same incident.
type Incident struct {
	ID string `json:"id"`
	// Was lists names that it had before more was known of it.
	Was   []string `json:"was,omitempty"`
	Title string   `json:"title"`
	State State    `json:"state"`
	// Start and End are times by the clock of the host that Clock names.
	Start    time.Time `json:"start"`
	End      time.Time `json:"end,omitzero"`
	Clock    string    `json:"clock"`
	Failures []Failure `json:"failures"`
	// People lists the administrators whose confirmation let a host go on.
	People   []string `json:"people,omitempty"`
	Timeline []Step   `json:"timeline"`
	// Notes says what a reader must know about the times, and what is missing.
	Notes []string `json:"notes,omitempty"`
	// Journals lists the hosts whose records are in it.
	Journals []string `json:"journals"`
	Records  []Record `json:"records"`
	// Trailing is the number of records, the last ones, that came after it was
	// over. Once more is known, they may turn out to begin another incident.
	Trailing int `json:"trailing,omitempty"`
	// Complete is set if it is over and both hosts have reported all of it, and
	// their states before it: no later record can make it another incident.
	Complete bool `json:"complete,omitempty"`
}

// Long returns how long an incident lasted, zero while it lasts.
func (i Incident) Long() time.Duration {
	if i.End.IsZero() {
		return 0
	}
	return i.End.Sub(i.Start)
}

// Assemble builds incidents from the records of all hosts, the oldest first.
func Assemble(records []Record) []Incident {
	records = Unique(records)
	if len(records) == 0 {
		return nil
	}
	c := read(records)
	events := make([]event, len(records))
	for i, r := range records {
		events[i] = event{r, c.at(r)}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.t.Compare(b.t) })
	w := walker{hosts: map[string]*host{}}
	for _, e := range events {
		w.take(e)
	}
	out := make([]Incident, 0, len(w.groups))
	for _, g := range w.groups {
		out = append(out, g.incident(c, w.hosts))
	}
	return out
}

// incident builds the report on a group of events.
func (g *group) incident(c *clocks, hosts map[string]*host) Incident {
	out := Incident{Start: g.events[0].t, Clock: c.reference, State: UnderWay, Trailing: g.trailing}
	for _, e := range g.events {
		out.Records = append(out.Records, e.Record)
		if e.Kind == Wrote {
			continue // a machine outside has no journal here
		}
		if !slices.Contains(out.Journals, e.Host) {
			out.Journals = append(out.Journals, e.Host)
		}
		if e.Kind == Confirmed && !slices.Contains(out.People, e.Who) {
			out.People = append(out.People, e.Who)
		}
	}
	slices.Sort(out.Journals)
	for i, f := range g.failures {
		until := len(g.events)
		if i+1 < len(g.failures) {
			until = g.failures[i+1].first
		}
		out.Failures = append(out.Failures, f.failure(g.events[f.first:until], g.events[:f.first]))
	}
	if g.closed {
		out.State, out.End, out.Complete = Over, g.ended(), g.before && g.after
	} else if waits(g, hosts) {
		out.State = Waiting
	}
	out.Timeline = timeline(g.events)
	out.Notes = append(c.notes(out.Records), missing(out, hosts)...)
	out.Title, out.Records = title(out), shortened(out.Records)
	out.Trailing = min(out.Trailing, len(out.Records))
	out.ID = out.Start.UTC().Format("20060102-150405") + "-" + subject(out.Failures[0])
	return out
}

// maxRecords limits the records that one incident keeps.
const maxRecords = 120

// shortened drops the middle of a list that is too long.
func shortened(records []Record) []Record {
	if len(records) <= maxRecords {
		return records
	}
	return append(slices.Clone(records[:maxRecords/2]), records[len(records)-maxRecords/2:]...)
}

// ended returns when both were whole. A host may record a moment after its peer
// that both are voters.
func (g *group) ended() time.Time {
	end := g.end
	for _, e := range g.events {
		if e.Kind == Recorded && e.State == state.EtcdPair && e.t.After(end) {
			end = e.t
		}
	}
	return end
}

// waits reports whether a host asks for an administrator and no remaining host
// works without one.
func waits(g *group, hosts map[string]*host) bool {
	asks := false
	for name, h := range hosts {
		if !g.lost[name] && h.action == state.EtcdIdle {
			return false
		}
		asks = asks || h.action == state.EtcdAskHuman
	}
	return asks
}

func subject(f Failure) string {
	if len(f.Hosts) == 1 {
		return f.Hosts[0]
	}
	return "pair"
}

// missing names the hosts whose journals are not among the records.
func missing(i Incident, hosts map[string]*host) []string {
	var out []string
	for name := range hosts {
		if !slices.Contains(i.Journals, name) {
			out = append(out, "the journal of "+name+" is not in this report: its own observations are missing")
		}
	}
	slices.Sort(out)
	return out
}
