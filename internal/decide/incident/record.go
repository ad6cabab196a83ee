// Package incident puts together what two hosts noted when one of them was
// lost, left, or came back: one report in plain words, with times and with who
// saw what. It looks nothing up: the records of both hosts come as data, from
// clocks that may differ, some of them late and some never.
package incident

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Kind is what a record tells of.
type Kind string

// The kinds of records.
const (
	Booted    Kind = "booted"   // the host started
	Members   Kind = "members"  // who is there, says Corosync on the host
	Decides   Kind = "decides"  // another rule of the two-node protocol decides
	Recorded  Kind = "recorded" // the durable record of etcd says something else
	Wished    Kind = "wished"   // Pacemaker wants etcd started or stopped
	AsksFence Kind = "asks-fence"
	Fenced    Kind = "fenced" // or tried to
	Confirmed Kind = "confirmed"
	Restarted Kind = "restarted" // etcd is restarted in place
	Holds     Kind = "holds"     // the virtual IPs that the host has
	API       Kind = "api"       // whether the host's API server is ready
	Tainted   Kind = "tainted"   // the API was told that a host is off
	Untainted Kind = "untainted"
	Pods      Kind = "pods"   // those of a lost host run elsewhere
	Wrote     Kind = "wrote"  // another machine could write through the API VIP again
	Missed    Kind = "missed" // what the host noted before could not be kept
)

// Record is one thing that a host noted.
type Record struct {
	Host string `json:"host"`
	// Boot names the boot in which it was noted, Up is the time by a clock that
	// only goes forward in it; both are empty where only the clock was noted.
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up,omitempty"`
	// At is the time by the clock of the host.
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	// Members, Ring and Quorate are a membership. One without members is unknown.
	Members []string `json:"members,omitempty"`
	Ring    uint64   `json:"ring,omitempty"`
	Quorate bool     `json:"quorate,omitempty"`
	// Rule and Action are those of a decision, State and Seq those of a record.
	Rule   string           `json:"rule,omitempty"`
	Action state.EtcdAction `json:"action,omitempty"`
	State  state.EtcdState  `json:"state,omitempty"`
	Seq    uint64           `json:"seq,omitempty"`
	Wish   state.EtcdWish   `json:"wish,omitempty"`
	// Target is the host that it is about, where that is another one.
	Target string `json:"target,omitempty"`
	// OK is whether a fence was proven, the API server is ready, or a person
	// forced it.
	OK bool `json:"ok,omitempty"`
	// Took is how long it took until At.
	Took time.Duration `json:"took,omitempty"`
	VIPs []string      `json:"vips,omitempty"`
	// Count is of pods, or of events that are missing.
	Count int `json:"count,omitempty"`
	// Who is the person who confirmed, or the machine that wrote.
	Who string `json:"who,omitempty"`
	Why string `json:"why,omitempty"`
	// From is where it was noted.
	From string `json:"from"`
}

// Key is the same for the same record, however often it is read. What another
// machine measured is one record, whichever host read it.
func (r Record) Key() string {
	at := r.At.UTC().Format(time.RFC3339Nano)
	if r.Up > 0 {
		at = r.Boot + "+" + r.Up.String()
	}
	if r.Kind == Wrote {
		return strings.Join([]string{r.Who, string(r.Kind), at}, "|")
	}
	what := cmp.Or(r.Rule, r.Target, string(r.Wish), strings.Join(r.VIPs, ","), fmt.Sprint(r.Ring, r.OK, r.Seq))
	return strings.Join([]string{r.Host, string(r.Kind), at, what}, "|")
}

// Unique returns records without those that were read twice, by their hosts'
// clocks. Lines that a host writes at once have one time: what it saw comes
// before what it made of that.
func Unique(records []Record) []Record {
	byKey := map[string]Record{}
	for _, r := range records {
		if was, known := byKey[r.Key()]; !known || r.Host <= was.Host {
			byKey[r.Key()] = r
		}
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b string) int {
		return cmp.Or(byKey[a].At.Compare(byKey[b].At), cmp.Compare(byKey[a].Kind.rank(), byKey[b].Kind.rank()), cmp.Compare(a, b))
	})
	out := make([]Record, len(keys))
	for i, k := range keys {
		out[i] = byKey[k]
	}
	return out
}

// rank is the place of a kind among what a host notes at one time.
func (k Kind) rank() int {
	switch k {
	case Booted:
		return 0
	case Members:
		return 1
	default:
		return 2
	}
}

// Newest returns at most n records, the newest, and before them the last record
// of etcd of those that were left out: what a host was before is part of what
// happened after.
func Newest(records []Record, n int) []Record {
	if len(records) <= n {
		return records
	}
	cut := len(records) - n + 1
	for i := cut - 1; i >= 0; i-- {
		if records[i].Kind == Recorded {
			return append([]Record{records[i]}, records[cut:]...)
		}
	}
	return records[cut-1:]
}
