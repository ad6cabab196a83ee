// Package client writes to a cluster and reads from it while it is being
// broken. It records what it sees, and checks afterwards that the cluster kept
// its guarantees. It must never guess: an operation that is not known to have
// failed may have happened.
package client

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// The kinds.
const (
	Write Kind = "write"
	Read  Kind = "read"
)

// Outcome is the client's knowledge of the end of an operation.
type Outcome string

// The outcomes. An Unknown operation may have happened, now or later; a Failed
// one surely did not.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Op is one operation. Its times are relative to the beginning of the history,
// from a clock that never jumps.
type Op struct {
	Client   int           `json:"client"`
	Endpoint string        `json:"endpoint"`
	Kind     Kind          `json:"kind"`
	Key      string        `json:"key"`
	Value    string        `json:"value,omitempty"`
	Start    time.Duration `json:"start"`
	End      time.Duration `json:"end"`
	Outcome  Outcome       `json:"outcome"`
	// Revision is the revision of the write, or the one at which the read
	// happened; zero if the answer had none.
	Revision int64  `json:"revision,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Event is one change that a watch reported.
type Event struct {
	Watch    string        `json:"watch"`
	Key      string        `json:"key"`
	Value    string        `json:"value"`
	Revision int64         `json:"revision"`
	At       time.Duration `json:"at"`
}

// History holds what the clients of one run saw. Its zero value is not usable.
type History struct {
	// Began is the wall clock at time zero of the operations.
	Began time.Time `json:"began"`
	// Ops holds the operations in the order in which they ended.
	Ops    []Op    `json:"ops"`
	Events []Event `json:"events"`
	// Broken lists, for each watch, the times at which it broke and was resumed
	// at the revision after the last one seen.
	Broken map[string][]time.Duration `json:"broken,omitempty"`
	// Skipped lists, for each watch, the revisions that it had to skip: an API
	// server that has just started knows no earlier changes.
	Skipped map[string][]Span `json:"skipped,omitempty"`
	// Final holds the stored values at the end, by key.
	Final map[string]string `json:"final,omitempty"`
}

// Span is a range of revisions, both ends included.
type Span struct {
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// End returns the time at which the last operation ended.
func (h History) End() time.Duration {
	if len(h.Ops) == 0 {
		return 0
	}
	return h.Ops[len(h.Ops)-1].End
}

// Recorder collects a history from many goroutines.
type Recorder struct {
	mu sync.Mutex
	h  History
}

// NewRecorder starts a history now.
func NewRecorder() *Recorder {
	return &Recorder{h: History{Began: time.Now(), Broken: map[string][]time.Duration{}, Skipped: map[string][]Span{}}}
}

// Since returns the time since the beginning of the history.
func (r *Recorder) Since() time.Duration { return time.Since(r.h.Began) }

// At converts a moment to the time of the history.
func (r *Recorder) At(t time.Time) time.Duration { return t.Sub(r.h.Began) }

func (r *Recorder) op(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ops = append(r.h.Ops, o)
}

func (r *Recorder) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Events = append(r.h.Events, e)
}

func (r *Recorder) broke(watch string) {
	at := r.Since()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Broken[watch] = append(r.h.Broken[watch], at)
}

func (r *Recorder) skipped(watch string, s Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Skipped[watch] = append(r.h.Skipped[watch], s)
}

// Copy returns the history so far.
func (r *Recorder) Copy() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Ops, h.Events = slices.Clone(h.Ops), slices.Clone(h.Events)
	return h
}

// Last returns the time at which the last acknowledged write ended, through an
// endpoint or, if that is empty, through any.
func (r *Recorder) Last(endpoint string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range slices.Backward(r.h.Ops) {
		if o.acknowledged(endpoint) {
			return o.End
		}
	}
	return 0
}

func (o Op) acknowledged(endpoint string) bool {
	return o.Kind == Write && o.Outcome == OK && (endpoint == "" || o.Endpoint == endpoint)
}

// acks returns the times of acknowledgements, sorted.
func (h History) acks(endpoint string) []time.Duration {
	var out []time.Duration
	for _, o := range h.Ops {
		if o.acknowledged(endpoint) {
			out = append(out, o.End)
		}
	}
	slices.Sort(out)
	return out
}

// Endpoints returns the endpoints of the operations, sorted.
func (h History) Endpoints() []string {
	seen := map[string]bool{}
	for _, o := range h.Ops {
		seen[o.Endpoint] = true
	}
	var out []string
	for e := range seen {
		out = append(out, e)
	}
	slices.Sort(out)
	return out
}

// byStart returns a copy of the operations in the order in which they began.
func byStart(ops []Op) []Op {
	return slices.SortedStableFunc(slices.Values(ops), func(a, b Op) int { return cmp.Compare(a.Start, b.Start) })
}
