// Package evidence stores the measurements of the two-node scenarios, and
// prints them as a table.
package evidence

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Seconds is a duration that is written as a number of seconds.
type Seconds float64

// In returns a duration in seconds.
func In(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Trial is one fault and its effects. Anything that was not seen is nil.
type Trial struct {
	Scenario string    `json:"scenario"`
	Time     time.Time `json:"time"`
	Failed   bool      `json:"failed,omitempty"`
	// The parts of a recovery, one after the other: the times until the
	// membership changed, until the fence was proven, until the survivor
	// decided, until etcd took a write, and until an API server did.
	Detect *Seconds `json:"detect,omitempty"`
	Fence  *Seconds `json:"fence,omitempty"`
	Decide *Seconds `json:"decide,omitempty"`
	Etcd   *Seconds `json:"etcd,omitempty"`
	API    *Seconds `json:"api,omitempty"`
	// The times from the fault until a write was acknowledged again, by etcd,
	// by the API of a host, and by the API at its virtual address.
	EtcdBack *Seconds `json:"etcdBack,omitempty"`
	APIBack  *Seconds `json:"apiBack,omitempty"`
	VIPBack  *Seconds `json:"vipBack,omitempty"`
	// EtcdGap and APIGap are the longest times without an acknowledged write,
	// VIPGap the longest one without a write through the virtual address.
	EtcdGap *Seconds `json:"etcdGap,omitempty"`
	APIGap  *Seconds `json:"apiGap,omitempty"`
	VIPGap  *Seconds `json:"vipGap,omitempty"`
	// Voters is the time from the fault, or from its end if somebody had to end
	// it, until there were two voters again.
	Voters *Seconds `json:"voters,omitempty"`
	// Told holds the times until the API showed a change. They begin at the log
	// line of Pacemaker, Corosync or the etcd keeper, or when the API took
	// writes again after that. FirstTold is the time from the fault until the
	// API first showed anything of it.
	Told      []Seconds `json:"told,omitempty"`
	FirstTold *Seconds  `json:"firstTold,omitempty"`
	// AgentCPU is the processor time of holdfast-agent by host from the fault
	// until the cluster was whole, in ms a second.
	AgentCPU map[string]float64 `json:"agentCPU,omitempty"`
	// Fences is the number of fences that were carried out.
	Fences int `json:"fences"`
	// Held is the longest time without an acknowledged write through the
	// virtual address while a fault lasted, HeldAny the longest one without a
	// write by any way into the API. Hold is the duration of the fault.
	Held    *Seconds `json:"held,omitempty"`
	HeldAny *Seconds `json:"heldAny,omitempty"`
	Hold    Seconds  `json:"hold,omitempty"`
	// Sick is the host that had the fault. Fenced lists the fenced hosts.
	Sick   string   `json:"sick,omitempty"`
	Fenced []string `json:"fenced,omitempty"`
}

// Moments holds the ends of the phases of a recovery; zero if not seen.
type Moments struct {
	Fault, Membership, Fenced, Decided, Etcd, API time.Time
}

// Split fills in the parts of a recovery. A part is known if both its ends are.
func (t *Trial) Split(m Moments) {
	t.Detect = between(m.Fault, m.Membership)
	t.Fence = between(m.Membership, m.Fenced)
	t.Decide = between(m.Fenced, m.Decided)
	t.Etcd = between(m.Decided, m.Etcd)
	t.API = between(m.Etcd, m.API)
}

func between(a, b time.Time) *Seconds {
	if a.IsZero() || b.IsZero() {
		return nil
	}
	return new(In(b.Sub(a)))
}

// Append appends a trial, of any kind of scenario, to a file, with one JSON
// object on each line.
func Append[T any](path string, t T) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// Read returns the trials of a file.
func Read[T any](r io.Reader) ([]T, error) {
	var out []T
	for d := json.NewDecoder(r); ; {
		var t T
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return out, fmt.Errorf("results: after %d trials: %w", len(out), err)
		}
		out = append(out, t)
	}
}

// column is one figure of the table.
type column struct {
	title string
	value func(Trial) *Seconds
}

var columns = []column{
	{"etcd writes back", func(t Trial) *Seconds { return t.EtcdBack }},
	{"API writes back", func(t Trial) *Seconds { return t.APIBack }},
	{"at the VIP", func(t Trial) *Seconds { return t.VIPBack }},
	{"longest gap of etcd", func(t Trial) *Seconds { return t.EtcdGap }},
	{"of the VIP", func(t Trial) *Seconds { return t.VIPGap }},
	{"two voters", func(t Trial) *Seconds { return t.Voters }},
}

var parts = []column{
	{"detect", func(t Trial) *Seconds { return t.Detect }},
	{"fence", func(t Trial) *Seconds { return t.Fence }},
	{"decide", func(t Trial) *Seconds { return t.Decide }},
	{"etcd", func(t Trial) *Seconds { return t.Etcd }},
	{"API", func(t Trial) *Seconds { return t.API }},
}

// Table returns tables in Markdown: the recovery times of each scenario (p50 /
// p90 / max, in seconds), their parts (p50 / max), and how soon people were
// told.
func Table(list []Trial) string {
	var b strings.Builder
	names, byName := group(list)
	heading(&b, "n", "failed", columns)
	for _, name := range names {
		trials := byName[name]
		fmt.Fprintf(&b, "| %s | %d | %d |", name, len(trials), failed(trials))
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", spread(values(trials, c), 50, 90, 100))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	heading(&b, "fences", "", parts)
	for _, name := range names {
		trials := byName[name]
		if len(values(trials, parts[0])) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", name, fences(trials))
		for _, c := range parts {
			fmt.Fprintf(&b, " %s |", spread(values(trials, c), 50, 100))
		}
		b.WriteString("\n")
	}
	return b.String() + held(names, byName) + told(names, byName)
}

// held returns the table of faults that somebody has to mend: the longest time
// without a write from outside while one lasted, and the hosts that were fenced
// for it.
func held(names []string, byName map[string][]Trial) string {
	var b strings.Builder
	for _, name := range names {
		trials := byName[name]
		atVIP := values(trials, column{value: func(t Trial) *Seconds { return t.Held }})
		if len(atVIP) == 0 {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| fault | n | failed | held | no write at the VIP, p50 / p90 / max | nor anywhere | fences | of the other host |\n|---|---|---|---|---|---|---|---|\n")
		}
		anywhere := values(trials, column{value: func(t Trial) *Seconds { return t.HeldAny }})
		fmt.Fprintf(&b, "| %s | %d | %d | %.0f | %s | %s | %s | %d |\n", name, len(trials), failed(trials), float64(trials[0].Hold),
			spread(atVIP, 50, 90, 100), spread(anywhere, 50, 90, 100), fences(trials), wrong(trials))
	}
	return b.String()
}

// wrong counts the fences of hosts that had no fault.
func wrong(list []Trial) int {
	n := 0
	for _, t := range list {
		for _, host := range t.Fenced {
			if t.Sick != "" && host != t.Sick {
				n++
			}
		}
	}
	return n
}

// told returns the third table: how soon people were told, over all changes of
// all trials, and the cost of the two hosts' agents meanwhile, the busier one
// first.
func told(names []string, byName map[string][]Trial) string {
	var b strings.Builder
	b.WriteString("\n| scenario | changes | event to API, p50 / p99 / max | fault to API, p50 / max | agents, ms of CPU a second, p50 |\n|---|---|---|---|---|\n")
	var all []Trial
	line := func(name string, trials []Trial) {
		delays := delaysOf(trials)
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", name, len(delays), spread(delays, 50, 99, 100),
			spread(values(trials, column{value: func(t Trial) *Seconds { return t.FirstTold }}), 50, 100), costs(trials))
	}
	for _, name := range names {
		if trials := byName[name]; len(delaysOf(trials)) > 0 {
			line(name, trials)
			all = append(all, trials...)
		}
	}
	if len(all) == 0 {
		return ""
	}
	line("all", all)
	return b.String()
}

func delaysOf(list []Trial) []float64 {
	var out []float64
	for _, t := range list {
		for _, d := range t.Told {
			out = append(out, float64(d))
		}
	}
	slices.Sort(out)
	return out
}

// costs returns the medians of the busier and of the calmer host's agent.
func costs(list []Trial) string {
	var most, least []float64
	for _, t := range list {
		if used := slices.Sorted(maps.Values(t.AgentCPU)); len(used) > 0 {
			most, least = append(most, used[len(used)-1]), append(least, used[0])
		}
	}
	if len(most) == 0 {
		return "–"
	}
	slices.Sort(most)
	slices.Sort(least)
	return fmt.Sprintf("%.0f, %.0f", Percentile(most, 50), Percentile(least, 50))
}

func heading(b *strings.Builder, second, third string, list []column) {
	titles := []string{"scenario", second}
	if third != "" {
		titles = append(titles, third)
	}
	for _, c := range list {
		titles = append(titles, c.title)
	}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(titles, " | "), strings.Repeat("---|", len(titles)))
}

// group returns the scenarios in the order of their first appearance.
func group(list []Trial) ([]string, map[string][]Trial) {
	var names []string
	byName := map[string][]Trial{}
	for _, t := range list {
		if _, known := byName[t.Scenario]; !known {
			names = append(names, t.Scenario)
		}
		byName[t.Scenario] = append(byName[t.Scenario], t)
	}
	return names, byName
}

func failed(list []Trial) int {
	n := 0
	for _, t := range list {
		if t.Failed {
			n++
		}
	}
	return n
}

// fences returns the number of fences of a trial, or the range over several.
func fences(list []Trial) string {
	least := slices.MinFunc(list, func(a, b Trial) int { return cmp.Compare(a.Fences, b.Fences) }).Fences
	most := slices.MaxFunc(list, func(a, b Trial) int { return cmp.Compare(a.Fences, b.Fences) }).Fences
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

// values returns the values of a column, sorted. Figures of failed trials count
// if they were measured: without them the result would look too good.
func values(list []Trial, c column) []float64 {
	var out []float64
	for _, t := range list {
		if v := c.value(t); v != nil {
			out = append(out, float64(*v))
		}
	}
	slices.Sort(out)
	return out
}

// spread prints percentiles of sorted values.
func spread(sorted []float64, percentiles ...int) string {
	if len(sorted) == 0 {
		return "–"
	}
	var out []string
	for _, p := range percentiles {
		out = append(out, fmt.Sprintf("%.1f", Percentile(sorted, p)))
	}
	if len(sorted) == 1 {
		out = out[:1]
	}
	return strings.Join(out, " / ")
}

// Percentile returns the nearest-rank percentile of sorted values: a measured
// value, not one between two.
func Percentile(sorted []float64, p int) float64 {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
