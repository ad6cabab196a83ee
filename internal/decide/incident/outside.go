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

// OutsideAnnotation of a host's own Lease is what that host measured of writes
// through the API VIP, while the VIP was on another host.
const OutsideAnnotation = state.AnnotationDomain + "writes-from-outside"

// The times of a measurement.
const (
	// briefest is what counts as a time without writes: a connection that is made
	// anew is none.
	briefest = time.Second
	// settling is how long a machine goes on to write after a time without, so
	// that what it measured arrives.
	settling = 10 * time.Second
	// Between two attempts: Quiet while the API answers, Lively while it does not.
	Quiet  = 2 * time.Second
	Lively = 500 * time.Millisecond
)

// keptGaps is how many times without writes a machine shows.
const keptGaps = 8

// Gap is a time in which a machine could not write through the API VIP, from
// the begin of the first attempt that failed to the first write that succeeded.
type Gap struct {
	Until time.Time     `json:"until"`
	Long  time.Duration `json:"longNanoseconds"`
	VIP   string        `json:"vip"`
	// Ahead is how far the clock of the API server was before the machine's. It
	// is known to a second.
	Ahead time.Duration `json:"serverAheadNanoseconds,omitempty"`
}

// Attempt is one question to the API through the VIP.
type Attempt struct {
	Began, Ended time.Time
	VIP          string
	// Outside is false where the machine had the VIP itself or could not ask:
	// such an attempt proves nothing.
	Outside bool
	// OK is an answer that grants what was asked, Write is whether that was a
	// write.
	OK, Write bool
	// Ahead is as in Gap.
	Ahead time.Duration
}

// Outside is what a machine knows of writes through the VIP of another host.
type Outside struct {
	// worked is set once an attempt succeeded: who never could write measures
	// nothing by failing.
	worked bool
	failed time.Time // when the first attempt that failed began, zero while all is well
	wrote  time.Time // when a time without writes ended last
	Gaps   []Gap
}

// Next takes in one more attempt.
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
		return o // only a write ends a time without
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

// Writes reports whether the next attempt is a write: while the API does not
// answer, and until what was measured has arrived. Otherwise a read is enough to
// notice that it does not.
func (o Outside) Writes(now time.Time) bool {
	return !o.failed.IsZero() || !o.wrote.IsZero() && now.Sub(o.wrote) < settling
}

// shown is the annotation. It says when it was written, since a write that
// changes nothing never gets to etcd.
type shown struct {
	At   time.Time `json:"at"`
	Gaps []Gap     `json:"gaps,omitempty"`
}

// Text is what a machine writes at a moment.
func (o Outside) Text(now time.Time) string {
	b, err := json.Marshal(shown{now.UTC(), o.Gaps})
	if err != nil {
		return "" // times and numbers: it cannot fail
	}
	return string(b)
}

// Measured are the records of what machines show, by their names, of the time
// since a moment. What is not understood tells nothing.
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

// clients is when a machine that did not have the VIP could write through it.
// One that was itself lost tells of its own way back.
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
	return fmt.Sprintf("%s through %s, which another host had, after %s in which it could not", verb, strings.Join(r.VIPs, " and "), length(r.Took))
}

// seer is the machine whose word a record is.
func (r Record) seer() string {
	if r.Kind == Wrote {
		return r.Who
	}
	return r.Host
}

// writes says since when writes were possible: by clients if another machine
// measured it, else by etcd's own record alone.
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
		return fmt.Sprintf("Clients could write through the API VIP again %s after %s, as %s measured.", length(clients.After), what, clients.Host)
	case !etcd.At.IsZero() && !f.Moment(PhaseDecided).At.IsZero():
		return fmt.Sprintf("etcd on %s took writes again %s after %s; no other machine has told when clients could write.", etcd.Host, length(etcd.After), what)
	}
	return ""
}
