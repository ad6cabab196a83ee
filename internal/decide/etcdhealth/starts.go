package etcdhealth

import "time"

// Limits of starts that do not last.
const (
	// Lasting is how long etcd must have run for its start to have succeeded.
	Lasting = 15 * time.Second
	// MaxStarts is how many starts in a row may not last before the copy counts
	// as damaged, although it looks whole: enough for a port that is still
	// taken, a memory that was short for a moment, or a person who kills it.
	MaxStarts = 8
	// LeastSpace is what must be free on etcd's disk, in bytes, for a start that
	// does not last to say anything about the copy.
	LeastSpace = 64 << 20
)

// Starts counts how etcd's starts went.
type Starts struct {
	Failed int
	Last   time.Duration // since boot
}

// Next counts a start at an instant since boot.
func (s Starts) Next(now time.Duration) Starts {
	if s.Last == 0 || now-s.Last > Lasting {
		return Starts{Last: now}
	}
	return Starts{Failed: s.Failed + 1, Last: now}
}

// Hopeless reports whether the copy must be held to be damaged: etcd ends again
// and again, and its disk is not full.
func (s Starts) Hopeless(free uint64) bool {
	return s.Failed >= MaxStarts && free >= LeastSpace
}
