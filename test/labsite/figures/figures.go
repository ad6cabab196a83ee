// Package figures stores the measurements of scenarios, taken at a client and
// in the hosts, and prints them as a table, each figure beside its promise.
package figures

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/test/labsite/load"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// Trial is one event and its effects.
type Trial struct {
	Scenario string `json:"scenario"`
	// Families are the address families of the cluster, as in the flags of `lab
	// up`.
	Families string    `json:"families"`
	Time     time.Time `json:"time"`
	Failed   bool      `json:"failed,omitempty"`
	// Clients holds the loads of the trial, by the target of their requests.
	Clients map[string]Client `json:"clients,omitempty"`
	// Times holds the figures, in seconds, by name.
	Times map[string]evidence.Seconds `json:"times,omitempty"`
	// Targets holds the promises for some of them.
	Targets map[string]evidence.Seconds `json:"targets,omitempty"`

	// spans holds, for each of Clients, the times whose requests it counts.
	spans map[string][]load.Span
}

// Client holds what one load saw of the event.
type Client struct {
	Requests   int `json:"requests"`
	Failed     int `json:"failed"`
	FailedNew  int `json:"failedNew"`
	FailedKept int `json:"failedKept"`
	// Late is the longest delay of the client behind its own schedule.
	Late evidence.Seconds `json:"late"`
	// Zero is set if no request may fail.
	Zero bool `json:"zero,omitempty"`
}

// Took records a figure.
func (t *Trial) Took(what string, d time.Duration) {
	if t.Times == nil {
		t.Times = map[string]evidence.Seconds{}
	}
	t.Times[what] = evidence.In(d)
}

// Promise records the largest allowed value of a figure.
func (t *Trial) Promise(what string, most time.Duration) {
	if t.Targets == nil {
		t.Targets = map[string]evidence.Seconds{}
	}
	t.Targets[what] = evidence.In(most)
}

// Noticed records what a client noticed in a span of its history. Several spans add up.
// They may overlap, because a judge looks again at what was recorded before: each request
// counts once. The history must hold the requests of all spans so far.
func (t *Trial) Noticed(client string, h load.History, span load.Span, zero bool) {
	if t.Clients == nil {
		t.Clients, t.spans = map[string]Client{}, map[string][]load.Span{}
	}
	t.spans[client] = append(t.spans[client], span)
	l := h.Sum(t.spans[client]...)
	t.Clients[client] = Client{
		Requests: l.Requests, Failed: l.Failed, FailedNew: l.FailedNew, FailedKept: l.FailedKept, Late: evidence.In(l.Late), Zero: zero,
	}
}

// key identifies a line of a table.
type key struct{ scenario, families, what string }

// group returns the lines in the order of their first appearance, those of one
// trial sorted.
func group[V any](list []Trial, of func(Trial) map[string]V) ([]key, map[key][]V) {
	var keys []key
	values := map[key][]V{}
	for _, t := range list {
		all := of(t)
		for _, what := range slices.Sorted(maps.Keys(all)) {
			k := key{t.Scenario, t.Families, what}
			if _, known := values[k]; !known {
				keys = append(keys, k)
			}
			values[k] = append(values[k], all[what])
		}
	}
	return keys, values
}

// Table returns two tables in Markdown: each figure's distribution, in seconds,
// beside its target, and the number of failed requests.
func Table(list []Trial) string {
	return times(list) + "\n" + requests(list)
}

func times(list []Trial) string {
	var b strings.Builder
	b.WriteString("| event | cluster | figure | n | min | median | p90 | max | target | met |\n|---|---|---|---|---|---|---|---|---|---|\n")
	keys, values := group(list, func(t Trial) map[string]evidence.Seconds { return t.Times })
	_, targets := group(list, func(t Trial) map[string]evidence.Seconds { return t.Targets })
	for _, k := range keys {
		sorted := slices.Sorted(slices.Values(floats(values[k])))
		fmt.Fprintf(&b, "| %s | %s | %s | %d |", k.scenario, k.families, k.what, len(sorted))
		for _, p := range []int{0, 50, 90, 100} {
			fmt.Fprintf(&b, " %.2f |", evidence.Percentile(sorted, p))
		}
		b.WriteString(target(sorted, targets[k]) + "\n")
	}
	return b.String()
}

func floats(list []evidence.Seconds) []float64 {
	var out []float64
	for _, s := range list {
		out = append(out, float64(s))
	}
	return out
}

// target returns the promise, and the number of values that kept it.
func target(sorted []float64, promised []evidence.Seconds) string {
	if len(promised) == 0 {
		return " – | – |"
	}
	most := promised[len(promised)-1]
	kept := 0
	for _, v := range sorted {
		if v <= float64(most) {
			kept++
		}
	}
	return fmt.Sprintf(" %.1f | %d of %d |", float64(most), kept, len(sorted))
}

func requests(list []Trial) string {
	var b strings.Builder
	b.WriteString("| event | cluster | client | trials | failed trials | requests | failed | of them new | kept | most in a trial | to fail |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	broken := map[string]int{}
	for _, t := range list {
		if t.Failed {
			broken[t.Scenario+"\x00"+t.Families]++
		}
	}
	keys, values := group(list, func(t Trial) map[string]Client { return t.Clients })
	for _, k := range keys {
		var sum Client
		most, allowed := 0, "–"
		for _, c := range values[k] {
			sum.Requests, sum.Failed = sum.Requests+c.Requests, sum.Failed+c.Failed
			sum.FailedNew, sum.FailedKept = sum.FailedNew+c.FailedNew, sum.FailedKept+c.FailedKept
			most = max(most, c.Failed)
			if c.Zero {
				allowed = "0"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %s |\n", k.scenario, k.families, k.what, len(values[k]),
			broken[k.scenario+"\x00"+k.families], sum.Requests, sum.Failed, sum.FailedNew, sum.FailedKept, most, allowed)
	}
	return b.String()
}
