// Package incident combines what two hosts noted when one of them was lost,
// left, or came back, into one report in plain words, with times and sources.
// It looks nothing up: the caller passes the records of both hosts, from clocks
// that may differ; some arrive late and some never.
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

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	Booted    Kind = "booted"   // the host started
	Members   Kind = "members"  // the hosts that Corosync on the host sees
	Decides   Kind = "decides"  // the rule of the two-node protocol that decides has changed
	Recorded  Kind = "recorded" // the durable record of etcd has changed
	Wished    Kind = "wished"   // Pacemaker wants etcd started or stopped
	AsksFence Kind = "asks-fence"
	Fenced    Kind = "fenced" // or an attempt failed
	Confirmed Kind = "confirmed"
	Restarted Kind = "restarted" // etcd is restarted in place
	Holds     Kind = "holds"     // the VIPs that the host has
	API       Kind = "api"       // whether the host's API server is ready
	Tainted   Kind = "tainted"   // the API was told that a host is off
	Untainted Kind = "untainted"
	Pods      Kind = "pods"   // the pods of a lost host run elsewhere
	Wrote     Kind = "wrote"  // another machine could write through the API VIP again
	Plans     Kind = "plans"  // the host is about to leave in order, by its own decision
	Missed    Kind = "missed" // earlier events of the host could not be stored
)

// Record is one observation that a host noted.
type Record struct {
	Host string `json:"host"`
	// Boot names the boot in which it was noted. Up is the time since that boot
	// by a clock that only goes forward. Both are empty if only the wall clock
	// was noted.
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up,omitempty"`
	// At is the time by the clock of the host.
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	// Members, Ring and Quorate describe a membership, which is unknown without
	// members.
	Members []string `json:"members,omitempty"`
	Ring    uint64   `json:"ring,omitempty"`
	Quorate bool     `json:"quorate,omitempty"`
	// Rule and Action describe a decision, State and Seq a record of etcd.
	Rule   string           `json:"rule,omitempty"`
	Action state.EtcdAction `json:"action,omitempty"`
	State  state.EtcdState  `json:"state,omitempty"`
	Seq    uint64           `json:"seq,omitempty"`
	Wish   state.EtcdWish   `json:"wish,omitempty"`
	// Target is the host that the record is about, if that is another one.
	Target string `json:"target,omitempty"`
	// OK reports whether a fence was proven, the API server is ready, or an
	// administrator forced a confirmation.
	OK bool `json:"ok,omitempty"`
	// Took is the duration of what ended at At.
	Took time.Duration `json:"took,omitempty"`
	VIPs []string      `json:"vips,omitempty"`
	// Count is the number of pods, or of missing events.
	Count int `json:"count,omitempty"`
	// Who names the administrator who confirmed, or the machine that wrote.
	Who string `json:"who,omitempty"`
	Why string `json:"why,omitempty"`
	// From says where it was noted.
	From string `json:"from"`
}

// Key returns the same text for the same record, however often it is read. A
// measurement of another machine is one record, whichever host read it.
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

// Unique drops records that were read twice, and sorts the rest by the clocks
// of their hosts. Lines that a host writes at once have the same time; what it
// saw comes before what it concluded.
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

// rank orders the kinds that a host notes at the same time.
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

// Newest returns at most n records: the newest, and before them the last etcd
// record of those that were left out, because the earlier state of a host
// explains what happened after.
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
