package witness

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Line is a record from a host: a line of another program's journal, or an
// event of ours.
type Line struct {
	At      time.Time
	Host    string
	Message string
	Event   state.Event
}

// Delay is the delay between an event on a host and its appearance in the API.
type Delay struct {
	Subject, Value string
	Event, Told    time.Time
	// Open is the moment from which on the API could be written: Event or
	// later.
	Open time.Time
}

// Long returns the duration from that moment on.
func (d Delay) Long() time.Duration { return d.Told.Sub(d.Open) }

// sign is a host's own record of the cause of a changed condition: by
// Pacemaker, Corosync, or the etcd keeper, none of which is the collector.
type sign struct {
	subject, value string                 // of the condition; %s is the host
	message        string                 // a regular expression; %s is the host
	form           *regexp.Regexp         // of the message
	event          func(state.Event) bool // instead of a message
}

func (s sign) fits(l Line) bool {
	if s.event != nil {
		return s.event(l.Event)
	}
	return l.Message != "" && s.form.MatchString(l.Message)
}

// signs lists the signs in the order in which they are tried. Other conditions
// follow from these.
var signs = []sign{
	{subject: "node %s: Online", value: "False", message: `Members\[1\]`},
	{subject: "node %s: Online", value: "True", message: `Node %s state is now member`},
	{subject: "node %s: Active", value: "False", message: `Setting standby\[%s\]`},
	{subject: "etcd on %s: Started", value: "True", message: `Result of start operation for etcd on %s: `},
	{subject: "etcd on %s: Started", value: "False", message: `Result of (stop|monitor) operation for etcd on %s: `},
	{subject: "kubelet on %s: Started", value: "True", message: `Result of start operation for kubelet on %s: `},
	{subject: "kubelet on %s: Started", value: "False", message: `Result of (stop|monitor) operation for kubelet on %s: `},
	{subject: "etcd on %s: Operational", value: "False", message: `Result of \w+ operation for etcd on %s: `},
	{subject: "kubelet on %s: Operational", value: "False", message: `Result of \w+ operation for kubelet on %s: `},
	{subject: "fence agent %s_redfish: Operational", value: "False", message: `Result of \w+ operation for %s_redfish on [\w-]+: `},
	{subject: "cluster: Redundant", value: "False", event: func(e state.Event) bool { return e.Kind == state.EventMembership && len(e.Members) == 1 }},
	{subject: "cluster: Redundant", value: "True", event: func(e state.Event) bool { return e.Kind == state.EventRecord && e.State == state.EtcdPair }},
}

// Delays returns the delays of the conditions whose cause hosts log. Each
// begins at the last cause between the previous value and the new one. outages
// are the times in which nobody could write to the API.
func Delays(versions []Version, journal []Line, hosts []string, outages [][2]time.Time) []Delay {
	journal = slices.Clone(journal)
	slices.SortStableFunc(journal, func(a, b Line) int { return a.At.Compare(b.At) })
	var out []Delay
	for _, s := range named(hosts) {
		var was string
		var since time.Time
		for _, v := range versions {
			value, there := v.Values[s.subject]
			if !there || value == was {
				continue
			}
			if was != "" && strings.HasPrefix(value, s.value+" ") && !strings.HasPrefix(was, s.value+" ") {
				if at := cause(journal, s, since, v.At); !at.IsZero() {
					out = append(out, Delay{s.subject, value, at, v.At, opened(at, v.At, outages)})
				}
			}
			was, since = value, v.At
		}
	}
	return out
}

// named returns the signs of each host.
func named(hosts []string) []sign {
	var out []sign
	for _, s := range signs {
		names := hosts
		if !strings.Contains(s.subject, "%s") {
			names = []string{""}
		}
		for _, h := range names {
			out = append(out, sign{
				subject: strings.ReplaceAll(s.subject, "%s", h), value: s.value, event: s.event,
				form: regexp.MustCompile(strings.ReplaceAll(s.message, "%s", regexp.QuoteMeta(h))),
			})
		}
	}
	return out
}

// cause returns the time of the last line that fits between two moments.
func cause(journal []Line, s sign, after, before time.Time) time.Time {
	for _, l := range slices.Backward(journal) {
		if l.At.Before(before) && l.At.After(after) && s.fits(l) {
			return l.At
		}
	}
	return time.Time{}
}

// opened returns a moment itself or, if the API was down then, the time at
// which clients could write again, but not later than told.
func opened(at, told time.Time, outages [][2]time.Time) time.Time {
	for _, o := range outages {
		if !at.Before(o[0]) && at.Before(o[1]) {
			if told.Before(o[1]) {
				return told
			}
			return o[1]
		}
	}
	return at
}

// Spent returns the processor time of agents between two moments, in
// milliseconds a second, by host. Of each boot it counts only the time after
// the first sample.
func Spent(costs []Cost, from, until time.Time) map[string]float64 {
	used := map[string]time.Duration{}
	last := map[string]Cost{}
	for _, c := range costs {
		if c.At.Before(from) || c.At.After(until) {
			continue
		}
		if before, known := last[c.Host]; known && before.Root == c.Root && c.CPU >= before.CPU {
			used[c.Host] += c.CPU - before.CPU
		}
		last[c.Host] = c
	}
	out := map[string]float64{}
	for h, d := range used {
		out[h] = float64(d.Microseconds()) / 1000 / until.Sub(from).Seconds()
	}
	return out
}

// Same reports whether two versions have the same values.
func (v Version) Same(o Version) bool { return maps.Equal(v.Values, o.Values) }

// Journal reads a host's journal in JSON, and skips lines that are no text.
func Journal(host string, data []byte) []Line {
	var out []Line
	for text := range bytes.Lines(data) {
		var e struct {
			At      string `json:"__REALTIME_TIMESTAMP"`
			Message string `json:"MESSAGE"`
		}
		if json.Unmarshal(text, &e) != nil {
			continue
		}
		if micros, err := strconv.ParseInt(e.At, 10, 64); err == nil {
			out = append(out, Line{At: time.UnixMicro(micros), Host: host, Message: e.Message})
		}
	}
	return out
}

// Events reads a host's events, one on each line, and skips other lines.
func Events(host string, data []byte) []Line {
	var out []Line
	for text := range bytes.Lines(data) {
		var e state.Event
		if json.Unmarshal(text, &e) == nil && !e.At.IsZero() {
			out = append(out, Line{At: e.At, Host: host, Event: e})
		}
	}
	return out
}
