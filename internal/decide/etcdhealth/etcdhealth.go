// Package etcdhealth decides when an etcd process that runs and does not
// answer is ended, so that it is restarted in place with the same data.
package etcdhealth

import "time"

// Limits. They are far above what a busy but healthy etcd needs for a read of
// its own memory, and below the time after which the peer would be asked to
// fence this host.
const (
	// FrozenAfter applies to a process that is stopped by a signal.
	FrozenAfter = 1 * time.Second
	// MuteAfter applies to a process that runs and answers nothing, not even
	// what it knows without a disk or a leader.
	MuteAfter = 15 * time.Second
	// StartGrace is how long a young process may read its log before it
	// answers.
	StartGrace = 60 * time.Second
)

// Process is what is known about etcd's process.
type Process struct {
	// Runs is false where it is unknown, too.
	Runs bool
	// Stopped is true for a process that a signal has stopped.
	Stopped bool
	// Blocked is true for one that waits for a disk and cannot be ended.
	Blocked bool
	// Age is how long it has lived.
	Age time.Duration
	// Mute is how long it has not answered.
	Mute time.Duration
	// Stale is true for one that commits nothing and names a leader, while its
	// peer in the same cluster knows none.
	Stale bool
	// Empty is true for one that does not hold its data, or not yet.
	Empty bool
	// Unwanted is true while etcd is to be stopped: in order, where it holds its
	// data.
	Unwanted bool
}

// End returns why the process should be ended, empty where it should not. A
// process that waits for its disk is left alone: its end would not come, and a
// restart would wait for the same disk.
func End(p Process) string {
	switch {
	case !p.Runs || p.Blocked:
		return ""
	case p.Unwanted && !p.Empty:
		return ""
	case p.Unwanted:
		return "etcd is to be stopped and has not taken its data yet"
	case p.Stopped && p.Mute > FrozenAfter:
		return "etcd is stopped by a signal and answers nothing"
	case p.Age > StartGrace && p.Mute > MuteAfter:
		return "etcd has not answered for " + p.Mute.Round(time.Second).String()
	case p.Age > StartGrace && p.Stale:
		return "etcd commits nothing, and names a leader of which its peer knows nothing"
	case p.Age > StartGrace && p.Empty:
		return "etcd was started " + p.Age.Round(time.Second).String() + " ago and does not hold its data"
	}
	return ""
}
