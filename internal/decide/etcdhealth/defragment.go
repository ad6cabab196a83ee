package etcdhealth

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Limits of a defragmentation, which blocks its member for 1 to 10 s for each GiB.
const (
	defragmentLeast  = 10 * time.Second
	defragmentPerGiB = 10 * time.Second
	// DefragmentMost bounds every note of a defragmentation, whoever wrote it: it is enough for
	// 8 GiB, the most that etcd advises.
	DefragmentMost = 90 * time.Second
)

// DefragmentLimit returns how long a defragmentation of a database may take.
func DefragmentLimit(size int64) time.Duration {
	return min(defragmentLeast+perGiB(size, defragmentPerGiB), DefragmentMost)
}

// Defragments reports whether a defragmentation may block etcd at a time since boot. A note ends
// by itself: one whose program crashed, and one with an end too far away, count for
// DefragmentMost at most.
func Defragments(n state.EtcdDefragmentation, now time.Duration) bool {
	return n.Until > 0 && n.Began <= now && now < min(n.Until, n.Began+DefragmentMost)
}

// perGiB returns so much time for each GiB. What is larger than any disk counts as such a disk.
func perGiB(size int64, each time.Duration) time.Duration {
	return time.Duration(min(max(size, 0), 1<<43)>>20) * each / 1024
}
