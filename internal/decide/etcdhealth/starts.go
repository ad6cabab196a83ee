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
	// Rest is the time after which a data directory with which no start lasted is
	// tried once more. What ended etcd may have been the host: too little memory,
	// for example.
	Rest = time.Minute
)

// Starts counts the failed starts of etcd in a row. Only a start that made a process
// says something of the data directory.
type Starts struct {
	Failed int
	// Missed is the number of attempts since the last start, in a row, that made no
	// process: podman failed, for example.
	Missed int
	// Full is the number of them up to the last one that found its disk full.
	Full int
	Last time.Duration // since boot
}

// Next counts a start that made a process at the given time since boot, and found so
// many bytes free.
func (s Starts) Next(now time.Duration, free uint64) Starts {
	if s.Last == 0 || now-s.Last > Lasting {
		return Starts{Last: now}
	}
	s.Failed, s.Missed, s.Last = s.Failed+1, 0, now
	if free < LeastSpace {
		s.Full = s.Failed
	}
	return s
}

// Miss counts an attempt that made no process. On a full disk it is as a start that
// failed: nothing can be made there.
func (s Starts) Miss(now time.Duration, free uint64) Starts {
	if free < LeastSpace {
		return s.Next(now, free)
	}
	s.Missed++
	return s
}

// Barred reports whether attempt after attempt makes no process.
func (s Starts) Barred() bool { return s.Missed >= MaxStarts }

// Crowded reports whether etcd ends again and again because its disk is full. The
// data directory is as good as before, but etcd cannot run from it here.
func (s Starts) Crowded(free uint64) bool {
	return s.Failed >= MaxStarts && free < LeastSpace
}

// Hopeless reports whether the data directory must count as damaged: etcd ended
// again and again, a moment ago, and its disk was not full.
func (s Starts) Hopeless(now time.Duration, free uint64) bool {
	return s.Failed-s.Full >= MaxStarts && free >= LeastSpace && now-s.Last <= Rest
}
