package etcdhealth

import "time"

// Limits for starts that do not last.
const (
	// Lasting is the time that etcd must run before its start counts as a success.
	Lasting = 15 * time.Second
	// MaxStarts is the number of failed starts in a row after which the data
	// directory counts as damaged, although it looks whole. It leaves room for a
	// port that is still taken, for memory that is short for a moment, and for
	// somebody who kills etcd.
	MaxStarts = 8
	// LeastSpace is the space that must be free on etcd's disk, in bytes. With
	// less, a failed start says nothing about the data directory.
	LeastSpace = 64 << 20
)

// Starts counts the failed starts of etcd in a row.
type Starts struct {
	Failed int
	Last   time.Duration // since boot
}

// Next counts a start at the given time since boot.
func (s Starts) Next(now time.Duration) Starts {
	if s.Last == 0 || now-s.Last > Lasting {
		return Starts{Last: now}
	}
	return Starts{Failed: s.Failed + 1, Last: now}
}

// Crowded reports whether etcd ends again and again because its disk is full. The
// data directory is as good as before, but etcd cannot run from it here.
func (s Starts) Crowded(free uint64) bool {
	return s.Failed >= MaxStarts && free < LeastSpace
}

// Hopeless reports whether the data directory must count as damaged: etcd ends
// again and again, and its disk is not full.
func (s Starts) Hopeless(free uint64) bool {
	return s.Failed >= MaxStarts && free >= LeastSpace
}
