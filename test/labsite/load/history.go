package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// History holds what a load saw, in the order in which requests ended.
type History struct {
	Began    time.Time `json:"began"`
	Requests []Request `json:"requests"`
}

// History returns what the load has seen so far.
func (l *Load) History() History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return History{Began: l.began, Requests: slices.Clone(l.requests)}
}

// Recent returns the requests that ended since a moment: repeated copies of a
// long history would keep a small machine busy.
func (l *Load) Recent(after time.Duration) History {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The requests are nearly in the order of their ends.
	first := sort.Search(len(l.requests), func(i int) bool { return l.requests[i].End >= after-time.Second })
	return History{Began: l.began, Requests: slices.Clone(l.requests[first:])}
}

// Loss is the loss that a client noticed between two moments.
type Loss struct {
	// Requests counts those that began in that time, or were not over at its
	// beginning.
	Requests, Failed, FailedNew, FailedKept int
	// Ended counts those of FailedKept whose connection was kept and ended. It happens once for each
	// connection, since no client uses it again.
	Ended int
	// Wrong counts the failed requests whose answer was another one, or whose server showed
	// a certificate that is not its own.
	Wrong int
	// Gap is the longest time without an answer.
	Gap time.Duration
	// Until is the time from the first moment to the beginning of the last
	// failed request; zero if none failed.
	Until time.Duration
	// Late is the longest delay of the client behind its schedule. On such a
	// busy machine a loss may be the machine's own.
	Late time.Duration
	// Why counts the failed requests by reason.
	Why map[string]int
}

// String describes the loss on one line.
func (l Loss) String() string {
	var words strings.Builder
	fmt.Fprintf(&words, "%d of %d requests failed (%d new, %d kept, of which %d by the connection's end), the last %s after the fault; longest time without an answer %s",
		l.Failed, l.Requests, l.FailedNew, l.FailedKept, l.Ended, l.Until.Round(time.Millisecond), l.Gap.Round(time.Millisecond))
	for _, why := range slices.Sorted(maps.Keys(l.Why)) {
		fmt.Fprintf(&words, "; %d× %s", l.Why[why], why)
	}
	if l.Late > 100*time.Millisecond {
		fmt.Fprintf(&words, "; the client itself was up to %s late", l.Late.Round(time.Millisecond))
	}
	return words.String()
}

// Span is the time between two moments of a history.
type Span struct{ From, Until time.Duration }

// has reports whether a request was not over at the beginning of the span, and
// began before its end.
func (s Span) has(r Request) bool { return r.End >= s.From && r.Start <= s.Until }

// Loss sums up the requests that were not over at one moment and began before
// another.
func (h History) Loss(from, until time.Duration) Loss {
	out := h.Sum(Span{from, until})
	out.Gap = h.gap(from, until)
	return out
}

// Sum sums up the requests of some spans, which may overlap: each request counts
// once. The result has no gap.
func (h History) Sum(spans ...Span) Loss {
	out := Loss{Why: map[string]int{}}
	for _, r := range h.Requests {
		if !slices.ContainsFunc(spans, func(s Span) bool { return s.has(r) }) {
			continue
		}
		out.Requests++
		out.Late = max(out.Late, r.Late)
		if r.OK() {
			continue
		}
		out.Failed++
		out.Why[reason(r.Error)]++
		if r.Kind == New {
			out.FailedNew++
		} else {
			out.FailedKept++
		}
		if r.Cause == CauseEnd {
			out.Ended++
		}
		if r.Cause == CauseWrong {
			out.Wrong++
		}
		out.Until = max(out.Until, r.Start-spans[0].From)
	}
	return out
}

// gap returns the longest time between two right answers that overlaps a span
// of time. The end of the span counts as an answer, so that a gap that had not
// ended then counts too.
func (h History) gap(from, until time.Duration) time.Duration {
	var ends []time.Duration
	for _, r := range h.Requests {
		if r.OK() && r.End < until {
			ends = append(ends, r.End)
		}
	}
	slices.Sort(ends)
	var longest, last time.Duration
	for _, end := range append(ends, until) {
		if end > from {
			longest = max(longest, end-last)
		}
		last = end
	}
	return longest
}

// Quiet returns nil if the wanted number of requests began after a moment, are
// over, and were all answered in a row up to the last one.
func (h History) Quiet(after time.Duration, want int) error {
	answered := 0
	var last Request
	for _, r := range byStart(h.Requests) {
		if r.Start < after {
			continue
		}
		answered++
		if !r.OK() {
			answered, last = 0, r
		}
	}
	switch {
	case answered >= want:
		return nil
	case last.Error != "":
		return fmt.Errorf("%d requests in a row were answered, want %d; before them one failed: %s", answered, want, last.Error)
	}
	return fmt.Errorf("%d requests in a row were answered, want %d", answered, want)
}

func byStart(list []Request) []Request {
	return slices.SortedFunc(slices.Values(list), func(a, b Request) int { return cmp.Compare(a.Start, b.Start) })
}

// reason returns an error without the numbers that differ between requests: the
// source ports of connections.
func reason(text string) string {
	if _, rest, found := strings.Cut(text, "->"); found {
		return "connection to " + rest
	}
	return text
}

// Save writes the history into a file.
func (h History) Save(path string) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
