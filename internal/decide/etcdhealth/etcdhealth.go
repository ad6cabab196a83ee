// Package etcdhealth decides when to end an etcd process that runs but does not
// answer, so that it is restarted in place with the same data.
package etcdhealth

import "time"

// Limits. They are far above what a busy but healthy etcd needs for a read of
// its own memory, and below the time after which the peer would be asked to
// fence this host.
const (
	// FrozenAfter is the limit for a process that a signal has stopped.
	FrozenAfter = 1 * time.Second
	// MuteAfter is the limit for a process that runs and answers nothing, not even
	// requests that need neither disk nor leader.
	MuteAfter = 15 * time.Second
	// StartGrace is the time that a young process gets to read its log before it
	// answers.
	StartGrace = 60 * time.Second
	// startPerGiB is more of it for each GiB of the database: etcd reads all of it, and on a
	// busy host 4 GiB take tens of seconds.
	startPerGiB = 15 * time.Second
)

// Process holds the known facts about etcd's process.
type Process struct {
	// Runs is false also if it is unknown.
	Runs bool
	// Stopped is true for a process that a signal has stopped.
	Stopped bool
	// Blocked is true for a process that waits for a disk and cannot be ended.
	Blocked bool
	// Defragments is true while a defragmentation may block it (Defragments). A process that is
	// mute is then left alone.
	Defragments bool
	// Size is that of its database in bytes.
	Size int64
	// Age is the time since the process started.
	Age time.Duration
	// Mute is the time since it last answered.
	Mute time.Duration
	// Stale is true for a process that commits nothing and names a leader, while
	// its peer in the same cluster knows none.
	Stale bool
	// Empty is true for a process that does not hold its data, or not yet.
	Empty bool
	// Unwanted is true while etcd is to be stopped. If it holds its data it is
	// stopped in order, and not ended here.
	Unwanted bool
}

// Grace returns the time that a young process gets, by the size of its database.
func Grace(size int64) time.Duration {
	return StartGrace + perGiB(size, startPerGiB)
}

// End returns why the process should be ended, empty if it should not. A process
// that waits for its disk is left alone: it could not be ended, and a restart
// would wait for the same disk.
func End(p Process) string {
	old := p.Age > Grace(p.Size)
	switch {
	case !p.Runs || p.Blocked:
		return ""
	case p.Unwanted && !p.Empty:
		return ""
	case p.Unwanted:
		return "etcd must stop and has not opened its data yet"
	case p.Stopped && p.Mute > FrozenAfter:
		return "etcd is suspended by a signal and does not answer"
	case old && p.Mute > MuteAfter && !p.Defragments:
		return "etcd has not answered for " + p.Mute.Round(time.Second).String()
	case old && p.Stale:
		return "etcd commits nothing and reports a leader that its peer does not know"
	case old && p.Empty:
		return "etcd was started " + p.Age.Round(time.Second).String() + " ago and has not opened its data"
	}
	return ""
}
