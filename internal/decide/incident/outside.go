package incident

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// OutsideAnnotation is an annotation of a host's own Lease. It holds what that
// host measured about writes through the API VIP while another host had the
// VIP.
const OutsideAnnotation = state.AnnotationDomain + "writes-from-outside"

// The times of a measurement.
const (
	// briefest is the shortest time without writes that counts: making a
	// connection anew takes less.
	briefest = time.Second
	// settling is how long a machine goes on to write after a gap, so that its
	// measurement arrives.
	settling = 10 * time.Second
	// Quiet and Lively are the pauses between two attempts: Quiet while the API
	// answers, Lively while it does not.
	Quiet  = 2 * time.Second
	Lively = 500 * time.Millisecond
)

// keptGaps is the number of gaps that a machine publishes.
const keptGaps = 8

// Gap is a time in which a machine could not write through the API VIP, from
// the start of the first attempt that failed to the end of the first write that
// succeeded.
type Gap struct {
	Until time.Time     `json:"until"`
	Long  time.Duration `json:"longNanoseconds"`
	VIP   string        `json:"vip"`
	// Ahead is how far the clock of the API server was ahead of the machine's,
	// to the second.
	Ahead time.Duration `json:"serverAheadNanoseconds,omitempty"`
}

// Attempt is one request to the API through the VIP.
type Attempt struct {
	Began, Ended time.Time
	VIP          string
	// Outside is false if the machine had the VIP itself or could not ask, also
	// because the API does not know its account: such an attempt proves nothing.
	Outside bool
	// OK reports whether the answer granted the request, Write whether the
	// request was a write.
	OK, Write bool
	// Ahead is the same as in Gap.
	Ahead time.Duration
}

// Outside holds what a machine knows of writes through the VIP of another host.
type Outside struct {
	// worked is set once an attempt has succeeded: the failures of a machine
	// that never could write measure nothing.
	worked bool
	failed time.Time // when the first failed attempt began, zero while all is well
	wrote  time.Time // when the last gap ended
	Gaps   []Gap
}

// Next returns the state after one more attempt.
func (o Outside) Next(a Attempt) Outside {
	switch {
	case !a.Outside:
		return Outside{Gaps: o.Gaps}
	case !a.OK:
		if o.worked && o.failed.IsZero() {
			o.failed = a.Began
		}
		return o
	case !o.failed.IsZero() && !a.Write:
		return o // only a write ends a gap
	case !o.failed.IsZero():
		if long := a.Ended.Sub(o.failed); long >= briefest {
			gaps := append(slices.Clone(o.Gaps), Gap{Until: a.Ended.UTC(), Long: long, VIP: a.VIP, Ahead: a.Ahead})
			o.Gaps = gaps[max(0, len(gaps)-keptGaps):]
			o.wrote = a.Ended
		}
	}
	o.worked, o.failed = true, time.Time{}
	return o
}

// Writes reports whether the next attempt is a write. It is while the API does
// not answer, and until the measurement has arrived. Otherwise a read is enough
// to notice an outage.
func (o Outside) Writes(now time.Time) bool {
	return !o.failed.IsZero() || !o.wrote.IsZero() && now.Sub(o.wrote) < settling
}

// shown is the annotation. At makes each text differ, because a write that
// changes nothing never reaches etcd.
type shown struct {
	At   time.Time `json:"at"`
	Gaps []Gap     `json:"gaps,omitempty"`
}

// Text returns the annotation that a machine writes at the given time.
func (o Outside) Text(now time.Time) string {
	b, err := json.Marshal(shown{now.UTC(), o.Gaps})
	if err != nil {
		return "" // it holds only times and numbers and cannot fail
	}
	return string(b)
}

// Measured returns the records from the annotations of machines, by their
// names, for gaps that ended at or after a given time. It skips everything that
// it does not understand.
func Measured(reader string, machines map[string]string, since time.Time) []Record {
	var out []Record
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		var s shown
		if json.Unmarshal([]byte(machines[name]), &s) != nil {
			continue
		}
		for _, g := range s.Gaps[max(0, len(s.Gaps)-keptGaps):] {
			at := g.Until.UTC()
			if g.Ahead.Abs() >= apart {
				at = at.Add(g.Ahead)
			}
			vip, err := netip.ParseAddr(g.VIP)
			if err != nil || g.Long < briefest || at.Before(since) {
				continue
			}
			out = append(out, Record{Host: reader, At: at, Kind: Wrote, Who: name, VIPs: []string{vip.String()}, Took: g.Long, OK: true, From: "Lease of " + name})
		}
	}
	return out
}

// Believed leaves out the measurements of machines that cannot be, and those beyond what each
// machine publishes: root on a worker writes what that one shows, and a gap of a later year would
// keep out all that really happens. The records are in the order of Unique. What hosts recorded
// themselves may be later than now, which is by a clock that may be behind after a boot.
func Believed(records []Record, now time.Time) []Record {
	for _, r := range records {
		if r.Kind != Wrote && r.At.After(now) {
			now = r.At
		}
	}
	kept := map[string]int{}
	var out []Record
	for _, r := range slices.Backward(records) {
		if r.Kind == Wrote {
			if r.At.After(now.Add(apart)) || kept[r.Who] == keptGaps {
				continue
			}
			kept[r.Who]++
		}
		out = append(out, r)
	}
	slices.Reverse(out)
	return out
}

// clients adds the moment when a machine that did not have the VIP could write
// through it. A host that was itself lost measures only its own way back and
// does not count.
func (t *teller) clients() {
	away := []Cause{Lost, Cut, Gone, Rebooted, Started}
	e := t.first(func(e event) bool {
		own := t.about(e.Who) && slices.Contains(away, t.out.Cause)
		return e.Kind == Wrote && !e.t.Before(t.f.at) && !own
	})
	if e != nil {
		t.add(PhaseClients, e, "%s %s", e.Who, e.wrote("wrote"))
		t.out.Moments[len(t.out.Moments)-1].Host = e.Who
	}
}

func (r Record) wrote(verb string) string {
	return fmt.Sprintf("%s through %s, which another host held, after %s in which it could not", verb, strings.Join(r.VIPs, " and "), length(r.Took))
}

// seer returns the machine that observed a record.
func (r Record) seer() string {
	if r.Kind == Wrote {
		return r.Who
	}
	return r.Host
}

// writes says when writes were possible again: for clients if another machine
// measured it, else only for etcd, by its own record.
func (f Failure) writes() string {
	what := list(f.Hosts) + " was lost"
	if f.Cause == CopyLost || f.Cause == Trouble {
		what = "that"
	}
	etcd, clients := f.Moment(PhaseEtcd), f.Moment(PhaseClients)
	switch {
	case f.Cause == Planned:
		return ""
	case !clients.At.IsZero():
		return fmt.Sprintf("Clients could write through the API VIP again %s after %s, as measured by %s.", length(clients.After), what, clients.Host)
	case !etcd.At.IsZero() && !f.Moment(PhaseDecided).At.IsZero():
		return fmt.Sprintf("etcd on %s took writes again %s after %s; no other machine measured when clients could write.", etcd.Host, length(etcd.After), what)
	}
	return ""
}
